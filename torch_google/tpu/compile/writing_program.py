# SPDX-License-Identifier: Apache-2.0
"""The program of a graph, and the arguments that the graph writes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax

from torch_google.tpu.compile.device_adapter import DeviceAdapter
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.runtime import interruptions


class WritingProgram:
    """A graph's program. Its first outputs are the new values of the written arguments."""

    def __init__(
        self, signature: GraphSignature, executable: jax.stages.Compiled, donated: Sequence[int]
    ) -> None:
        adapter = signature.adapter()
        self._signature = signature
        self._program = adapter.program(executable)
        self._needs = adapter.needs(executable)
        self._donated = donated
        written = list(signature.written)
        self._own = [index if signature.adapters[index] is adapter else None for index in written]
        self._others = [
            (position, index)
            for position, index in enumerate(written)
            if signature.adapters[index] is not adapter
        ]

    def __call__(
        self,
        args: Sequence[Any],
        arrays: list[Any],
        inputs: Callable[[], list[Any]],
        adapter: DeviceAdapter,
        shardings: Sequence[int] = (),
    ) -> Any:
        """Run the program, store the new values of arguments, and return the other outputs.

        `inputs` returns the program's inputs. It is called when arrays that the program must not
        overwrite have been replaced in `arrays`. `shardings` has the index of each output's
        sharding in shardings.py, or is empty if the program runs on one device.
        """
        # Check for enough free memory first: if the program failed later, its random state and
        # donated arguments would be lost.
        adapter.check_room(self._signature.device, self._needs)
        # Python code stores the other adapters' values. If a signal handler raised an exception
        # before the last one, only some arguments would have new values.
        delay = interruptions.delayed() if self._others else nullcontext()
        with delay, adapter.donate(args, arrays, self._donated) as donation:
            given = inputs()
            own = [None if index is None else args[index] for index in self._own]
            try:
                outputs = self._program.run(given, own, shardings[: len(own)], donation)
                if self._signature.collective:
                    # Wait until the program's collectives have run. The group's next collective
                    # must come after them, and it might run outside a program.
                    outputs[-1].block_until_ready()
            except (RuntimeError, ValueError) as error:
                # JAX's Python code and XLA raise errors of these types. Convert them to torch's.
                adapter.explain(error)
            adapter.count("call")
            for position, index in self._others:
                other = self._signature.adapters[index]
                assert other is not None
                other.store(args[index], outputs[position])
        return outputs[len(own) :]
