# SPDX-License-Identifier: Apache-2.0
"""torch is linked into the interpreter and needs no shared library.

Its static constructors run only when it is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

_NO_TORCH = """
import sys, _absl
before = {name for name in _absl.flags() if name.startswith("c10_")}
assert not before, before
import torch
assert "c10_caffe2_log_level" in _absl.flags()
assert torch.ones(2).sum().item() == 2
"""


def test_its_modules_are_builtin() -> None:
    assert {"torch._C", "functorch._C"} <= set(sys.builtin_module_names)
    assert getattr(torch._C, "__file__", None) is None
    import functorch._C

    assert getattr(functorch._C, "__file__", None) is None


def test_no_library_of_torch_is_loaded() -> None:
    torch.linalg.inv(torch.eye(3))
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = {Path(line.split()[-1]).name for line in maps if ".so" in line}
    # `libopenblas` does not match the OpenBLAS in NumPy's wheel, whose file has a different name.
    fragments = ("torch", "c10", "functorch", "gomp", "libopenblas")
    assert not {name for name in loaded if any(word in name for word in fragments)}


def test_registrations_wait_for_the_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _NO_TORCH], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_the_shared_memory_manager_is_the_interpreter() -> None:
    storage = torch.arange(4.0).untyped_storage()
    manager, handle, size = storage._share_filename_cpu_()
    shared = torch.UntypedStorage._new_shared_filename_cpu(manager, handle, size)
    shared[0] = 7
    assert storage[0] == 7
    assert b"torch_shm_manager" in _names_of_this_program()


def _names_of_this_program() -> set[bytes]:
    """Return the names (argv[0]) of the processes that run this executable."""
    names = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.path.samefile(process / "exe", sys.executable):
                names.add((process / "cmdline").read_bytes().split(b"\0")[0])
        except OSError:  # The process belongs to another user, or has exited.
            continue
    return names


def test_dynamo_reads_the_interpreters_tables() -> None:
    """Dynamo, which uses the interpreter's opcode tables, can compile and resume a frame."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        del inputs
        graphs.append(graph)
        return graph

    @torch.compile(backend=backend)
    def double_or_nothing(x: torch.Tensor, doubled: bool) -> torch.Tensor:
        total = torch.zeros_like(x)
        for _ in range(2):
            total = total + x
        return total if doubled else torch.zeros_like(x)

    ones = torch.ones(3)
    assert double_or_nothing(ones, True).tolist() == [2, 2, 2]
    assert double_or_nothing(ones, False).tolist() == [0, 0, 0]
    assert double_or_nothing(ones, True).tolist() == [2, 2, 2]
    assert len(graphs) == 2


def test_first_class_dimensions_are_there() -> None:
    """functorch.dim, which has its own opcode tables in C, works."""
    from functorch.dim import dims

    i, j = dims(2)
    matrix = torch.arange(6.0).reshape(2, 3)
    assert matrix[i, j].order(j, i).tolist() == matrix.t().tolist()
