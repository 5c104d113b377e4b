# SPDX-License-Identifier: Apache-2.0
"""Run cases on the device in a child process, and store the programs that the device compiles."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.aot.child import Child, Died, Hung
from tests.aot.rows import Case, Program, Sample
from tests.aot.store import Store

_SECONDS = 600
# This text is in the error that `dtypes.check` raises when Capture calls it for the `tpu` platform.
_DTYPE_REFUSED = "the platform tpu has no torch."
# The number of cases after which a new child starts, because compiled programs are never freed.
_CASES = 300


def collect(
    cases: Sequence[Case], store: Store, *, platform: str, samples: int | None = None
) -> Iterator[tuple[Case, list[Sample]]]:
    """Run the cases that are not yet in the store, and yield the samples of all cases in order.

    Their programs are lowered for `platform`, tpu or cuda. Use a separate store for each platform.
    """
    known = store.cases()
    with Child(
        _serve, str(store.folder), platform, samples, seconds=_SECONDS, most=_CASES
    ) as child:
        for case in cases:
            if case not in known:
                try:
                    found: list[Sample] = child.ask(case)
                except (Died, Hung) as reason:
                    found = [Sample(0, (), f"on the platform cpu, the process {reason}")]
                store.add_case(case, found)
                known[case] = found
            yield case, known[case]


def _serve(folder: str, platform: str, count: int | None) -> Callable[[Case], list[Sample]]:
    # Set the environment before JAX is imported.
    from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

    os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
    os.environ["TORCH_TPU_PLATFORM"] = os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TORCH_TPU_CPU_KERNELS"] = "0"
    os.environ.pop("TORCH_TPU_COMPILE_CACHE", None)
    import torch
    from jax._src.interpreters import mlir

    from torch_google.tpu import _C, autoload

    torch.set_num_threads(1)
    autoload()
    torch.tpu.init()
    # Share one MLIR context among all modules, because creating one for each would take a fifth of
    # the total time.
    context = mlir.make_ir_context()
    mlir.make_ir_context = lambda: context

    from tests.aot import kernels, subjects
    from tests.aot.capture import Capture

    capture = Capture(Store(Path(folder)), platform)
    gc.freeze()

    def answer(case: Case) -> list[Sample]:
        if case.check == "kernel":
            for name, traced in kernels.traced(case.subject, case.dtype):
                capture.add(name, traced)
            return [Sample(0, capture.take())]
        found = []
        for index, call in subjects.calls(case, count):
            # Evict all compiled programs, because Capture cannot observe calls to a program that is
            # already compiled.
            _C.clear_programs()
            found.append(_run(capture, index, call))
        return found

    return answer


def _run(capture: object, index: int, call: Callable[[], object]) -> Sample:
    from tests.aot.capture import Capture

    assert isinstance(capture, Capture)
    capture.take()
    error = ""
    with capture.running():
        try:
            call()
        except Exception as raised:  # noqa: BLE001 - any error is the result of the call
            lines = str(raised).strip().splitlines() or [""]
            error = f"{type(raised).__name__}: {lines[0][:300]}"
    programs = capture.take()
    if _DTYPE_REFUSED in error:
        programs += (Program("dtype", refusal=error),)
    return Sample(index, programs, error)
