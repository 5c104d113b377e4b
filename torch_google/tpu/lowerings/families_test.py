# SPDX-License-Identifier: Apache-2.0
"""The first lookup in the table imports all modules that define lowerings."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files


def test_every_module_that_lowers_is_a_family() -> None:
    from torch_google.tpu.lowerings import families

    lowering = {
        path.name.removesuffix(".py")
        for path in files("torch_google.tpu.lowerings").iterdir()
        if path.name.endswith(".py")
        and not path.name.endswith("_test.py")
        and "\n@lowering(" in path.read_text()
    }
    assert len(lowering) > 30
    assert lowering <= set(vars(families))


def test_the_room_is_empty_until_it_is_asked() -> None:
    program = (
        "import sys, torch; from torch_google.tpu import lowerings;"
        "op = torch.ops.aten.mm.default;"
        "print(lowerings.is_pinned(op), lowerings.foreign(), 'jax' in sys.modules);"
        "print(lowerings.find(op).name, lowerings.is_pinned(op), lowerings.foreign());"
        "lowerings.lowering('aten::add.Tensor')(print)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "True frozenset() False",
        "aten::mm True frozenset()",
    ]
    assert "ValueError: " in done.stderr
    assert "'aten::add.Tensor' is already lowered in" in done.stderr
