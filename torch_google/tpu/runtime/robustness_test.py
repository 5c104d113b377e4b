# SPDX-License-Identifier: Apache-2.0
"""What must not break a process: threads, long loops, failures of XLA's, exits, workers."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest
import torch

import torch_google.tpu
from torch_google.tpu.runtime import compiler


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_eight_threads_get_their_own_results() -> None:
    failures: list[str] = []
    begin = threading.Barrier(8)

    def work(seed: int) -> None:
        begin.wait()
        generator = torch.Generator().manual_seed(seed)
        for turn in range(40):
            a = torch.randn(7, seed + 1, generator=generator)
            x = a.to("tpu").requires_grad_()
            y = (x.t() @ x).relu() + 0.5
            y[0].mul_(2)
            y.sum().backward()
            b = a.clone().requires_grad_()
            z = (b.t() @ b).relu() + 0.5
            z[0].mul_(2)
            z.sum().backward()
            for found, wanted in [(y, z), (x.grad, b.grad)]:
                assert found is not None
                assert wanted is not None
                if not torch.allclose(found.detach().cpu(), wanted.detach(), atol=1e-4):
                    failures.append(f"thread {seed}, turn {turn}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert failures == []


def test_ten_thousand_iterations_without_a_host_read_take_no_memory() -> None:
    x = torch.ones(64, 256, device="tpu")
    w = torch.full((256, 256), 1e-3, device="tpu")

    def loop(turns: int) -> None:
        nonlocal x
        for _ in range(turns):
            x = torch.relu(x @ w).add_(1.0)

    loop(1000)
    torch.tpu.synchronize()
    before = _resident()
    loop(10_000)
    most = _resident()
    torch.tpu.synchronize()
    # A thousand live values of x would be 65 MB.
    assert most - before < 64 << 20
    assert torch.isfinite(x).all()
    assert torch.tpu.memory_allocated() < 4 << 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(1 << 44, device="tpu").add_(1),
        lambda: torch.zeros(1 << 44, device="tpu"),
        lambda: (
            torch.ones(1 << 22, device="tpu").reshape(-1, 1) @ torch.ones(1, 1 << 22, device="tpu")
        ),
    ],
    ids=["empty", "zeros", "product"],
)
def test_out_of_memory_names_sizes_and_the_rest_goes_on(make: Callable[[], torch.Tensor]) -> None:
    x = torch.arange(3.0, device="tpu")

    def computed() -> None:
        made = make()
        torch.tpu.synchronize()
        del made

    with pytest.raises(torch.OutOfMemoryError, match=r"\d{13,} bytes.* hold \d+ bytes; free some"):
        computed()
    assert (x + 1).tolist() == [1.0, 2.0, 3.0]


def test_what_xla_cannot_compile_leaves_tensors_and_random_numbers_usable() -> None:
    @torch_google.tpu.custom_kernel("robustness::no_such_target")
    def kernel(x: torch.Tensor) -> torch.Tensor:
        return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    x = torch.arange(3.0, device="tpu")
    torch.manual_seed(3)
    wanted = torch.rand(2, device="tpu").tolist()
    torch.manual_seed(3)
    for _ in range(2):
        with pytest.raises(Exception, match="no_such_target"):
            kernel(x)
    assert torch.rand(2, device="tpu").tolist() == wanted
    assert x.mul_(2).tolist() == [0.0, 2.0, 4.0]


def test_a_failed_compilation_changes_nothing_that_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: the compiler failed")

    x = torch.arange(4.0, device="tpu")
    view, version = x[1:3], x._version
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "compiled", fail)
        with pytest.raises(RuntimeError, match="the compiler failed"):
            view.atan2_(torch.full((2,), 3.0, device="tpu"))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert x._version <= version + 1
    view.atan2_(torch.full((2,), 1.0, device="tpu"))
    assert x[1].item() == pytest.approx(torch.pi / 4)


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from torch_google.tpu import autoload; autoload()\n" + program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


_LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    x = torch.ones(3, device="tpu")
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    loader = DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context="spawn",
                        pin_memory=True)
    total = 0.0
    for rows, labels in loader:
        assert rows.is_pinned() and labels.is_pinned(), "pinned"
        total += (rows.to("tpu", non_blocking=True).sum() * labels.to("tpu").sum()).item()
    print(total)
"""


def test_a_loader_with_workers_and_pinned_memory() -> None:
    done = _run(_LOADER)
    assert done.stdout == "458.0\n", done.stderr


_EXIT = """
import torch
x = torch.randn(16, 16, device="tpu", requires_grad=True)
(x @ x).sum().backward()
torch.kept = x  # as a global of a module has it: until the interpreter is gone
big = [torch.ones(256, 256, device="tpu") @ torch.ones(256, 256, device="tpu") for _ in range(50)]
event = torch.Event("tpu")
event.record()
print("done")
"""


def test_exit_with_live_tensors_and_work_in_flight() -> None:
    done = _run(_EXIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
