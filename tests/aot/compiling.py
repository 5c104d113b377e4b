# SPDX-License-Identifier: Apache-2.0
"""Compile stored programs for a chip, in a child process that may die or hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.aot.child import Child, Died, Hung
from tests.aot.rows import Compilation, Outcome
from tests.aot.store import Store

# The limits on the CPU time, in seconds, for compiling an operator and a whole training step.
SECONDS = 120
STEP_SECONDS = 900

# The number of programs after which a new child starts, because libtpu leaks memory: a child uses
# 1.2 GB after 600 programs.
_PROGRAMS = 400


def compile_programs(
    digests: Sequence[str], store: Store, chip: str, *, seconds: float = SECONDS
) -> Iterator[Compilation]:
    """Compile programs that have no outcome for `chip` yet; yield the outcomes of all programs."""
    known = store.compilations(chip)
    with Child(_serve, chip, seconds=seconds, most=_PROGRAMS) as child:
        for digest in digests:
            if digest not in known:
                known[digest] = _compiled(child, store.program(digest), digest)
                store.add_compilation(chip, known[digest])
            yield known[digest]


def _compiled(child: Child, program: Path, digest: str) -> Compilation:
    used = 0.0
    try:
        error, used = child.ask(str(program))
        outcome, message = Outcome.FAILED if error else Outcome.COMPILED, error
    except Died as death:
        outcome, message = Outcome.ABORTED, f"the process {death}"
    except Hung as limit:
        outcome, message = Outcome.SLOW, str(limit)
    return Compilation(digest, outcome, round(used, 2), message)


def _serve(chip: str) -> Callable[[str], tuple[str, float]]:
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.extend.mlir import ir

    from tests.aot import chips

    device = chips.device(chip)
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=[[0]]
    )
    devices = xla_client.DeviceList((device,))

    def answer(program: str) -> tuple[str, float]:
        """Return the compiler's error ("" on success) and its CPU time in seconds."""
        since = time.process_time()
        return compiled(program), time.process_time() - since

    def compiled(program: str) -> str:
        with mlir.make_ir_context():
            module = ir.Module.parse(Path(program).read_text(encoding="utf-8"))
            try:
                device.client.compile(module, executable_devices=devices, compile_options=options)
            except Exception as error:  # noqa: BLE001 - any error is an outcome
                lines = str(error).strip().splitlines() or [""]
                return f"{type(error).__name__}: {lines[0][:600]}"
        return ""

    return answer
