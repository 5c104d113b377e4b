# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn.attention import flex_attention

from torch_google.tpu import integrations
from torch_google.tpu.integrations import accelerate, peft


def _run(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_PROGRAM = (
    "import sys; from torch_google.tpu import registration; registration.register();"
    "print(any('integrations' in type(finder).__module__ for finder in sys.meta_path),"
    " 'jax' in sys.modules)"
)


def test_registration_installs_the_table_without_importing_anything() -> None:
    assert _run(_PROGRAM) == "True False"


def test_a_variable_turns_it_off() -> None:
    assert _run(_PROGRAM, TORCH_TPU_INTEGRATIONS="0") == "False False"


def test_another_value_of_the_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(integrations.VARIABLE, "no")
    with pytest.raises(ValueError, match="tpu: TORCH_TPU_INTEGRATIONS=no; use 0 or 1"):
        integrations.install()


@pytest.mark.parametrize(("known", "expected"), [("cpu", "tpu"), ("cuda", "cuda")])
def test_accelerates_default_device_is_this_one_if_it_knows_none(known: str, expected: str) -> None:
    class PartialState:
        @property
        def default_device(self) -> torch.device:
            return torch.device(known)

    state = ModuleType("accelerate.state")
    state.PartialState = PartialState  # type: ignore[attr-defined]
    accelerate.extend(state)
    assert PartialState().default_device == torch.device(expected)


@pytest.mark.parametrize(("known", "expected"), [("cpu", "tpu"), ("cuda", "cuda")])
def test_peft_infers_this_device_if_it_finds_no_other_accelerator(
    known: str, expected: str
) -> None:
    other = ModuleType("peft.utils.other")
    other.infer_device = lambda: known  # type: ignore[attr-defined]
    peft.extend(other)
    assert other.infer_device() == expected


def test_infer_device_is_replaced_before_peft_imports_it(tmp_path: Path) -> None:
    folder = tmp_path / "peft" / "utils"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("from .utils import infer_device")
    (folder / "__init__.py").write_text("from .other import infer_device")
    (folder / "other.py").write_text("def infer_device():\n    return 'cpu'")
    program = (
        "from torch_google.tpu import registration; registration.register();"
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import peft; print(peft.infer_device())"
    )
    assert _run(program) == "tpu"
    assert _run(program, TORCH_TPU_INTEGRATIONS="0") == "cpu"


def test_flex_attention_accepts_this_device_and_rejects_unknown_ones() -> None:
    query = torch.empty(1, 1, 16, 8)
    flex_attention._validate_device(*[query.to("tpu")] * 3)
    with pytest.raises(ValueError, match="only supported on"):
        flex_attention._validate_device(*[query.to("meta")] * 3)
