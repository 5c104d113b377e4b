# SPDX-License-Identifier: Apache-2.0
"""Works around two XLA:CPU bugs in fused programs (jaxlib 0.10.2).

1. A fused dynamic-update-slice shares a buffer with its operand even if an update reads elements of
the operand other than the one that it replaces. The loop then reads elements that it has already
overwritten: `x[:2] += x[0]` with `x = [2, 2]` gives `[4, 6]`, not `[4, 4]`. Optimization barriers
do not prevent this.
2. If LLVM knows that the operand of an `exponential` is NaN, the result is arbitrary:
`exp(max(x, nan))` gives 0.0 or -inf. XLA folds a plain `exp(nan)`, but leaves `max(x, nan)` to
LLVM, which makes the integer part of the exponent undefined.

Compiling without the `fusion` and `algsimp` passes avoids both bugs. This module looks for affected
fusions in the optimized program, and compiles the program again only if it contains one. An update
is safe if each of its elements reads only the target element that it replaces, as in `x[1:3] += 1`.
An expression that `_Fusion` does not support is treated as unsafe.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import jax

from torch_google.tpu.lowerings.partitioned_call import resolve
from torch_google.tpu.program import hlo
from torch_google.tpu.program.guarded_sums import guard_sums
from torch_google.tpu.program.hlo import Instruction
from torch_google.tpu.program.unsupported_products import WITHOUT_YNN, has_unsupported_product

_WRITE = "dynamic-update-slice"
_EXPONENTIAL = "exponential"
# Also disable `algsimp`: without `fusion`, it drops transposes before a reshape. It does so for
# complex numbers, and for every dtype if a flag selects the older emitters.
_NO_FUSION: dict[str, str | bool] = {
    "xla_disable_hlo_passes": "fusion,algsimp",
    "xla_cpu_use_fusion_emitters": True,
}

# Matches a NaN that is a scalar, or the first or only element of an array.
_NAN = re.compile(r" constant\([{ ]*-?nan\b")
_BOUNDS = re.compile(r"\bslice=\{(.*?)\}")
_BOUND = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")
_METADATA = re.compile(r", metadata=\{.*\}$")

# HLO operators that compute each result element from the operands' elements at the same index.
_ELEMENTWISE_NAMES = (
    "abs add and atan2 cbrt ceil clamp compare complex convert copy cosine divide erf exponential "
    "exponential-minus-one floor imag is-finite log log-plus-one logistic maximum minimum multiply "
    "negate not or popcnt power real reduce-precision remainder round-nearest-afz "
    "round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign "
    "sine sqrt subtract tan tanh xor"
)
_ELEMENTWISE = frozenset(_ELEMENTWISE_NAMES.split())


def compile_safely(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compile a program, and compile it again if XLA:CPU would miscompile or could not run it.

    The second compilation has other options. Applies `guard_sums` to the program first, and
    resolves calls that XLA cannot partition.
    """
    lowered = resolve(lowered)
    guard_sums(lowered)
    executable = lowered.compile()
    if not _is_for_cpu(executable):
        return executable
    text = executable.as_text() or ""
    options: dict[str, str | bool] = {}
    if has_unsupported_product(text):
        options |= WITHOUT_YNN
    if is_miscompiled(text):
        options |= _NO_FUSION
    return lowered.compile(compiler_options=options) if options else executable


def is_miscompiled(text: str) -> bool:
    """Return whether an optimized HLO module contains a fusion that XLA:CPU may miscompile."""
    if not _is_suspect(text):
        return False
    lines = hlo.split(text).computations
    suspects = {name for name, body in lines.items() if _is_suspect("\n".join(body))}
    for body in lines.values() if suspects else ():
        fusions = _parsed(line for line in body if " fusion(" in line).values()
        calls = [call for call in fusions if suspects & set(call.called)]
        caller = _parsed(body) if calls else {}
        for call in calls:
            sources = _sources(call, caller)
            for name in suspects & set(call.called):
                if _Fusion(_parsed(lines[name]), sources).is_unsafe():
                    return True
    return False


def _is_suspect(text: str) -> bool:
    return f" {_WRITE}(" in text or (f" {_EXPONENTIAL}(" in text and _NAN.search(text) is not None)


def _is_for_cpu(executable: jax.stages.Compiled) -> bool:
    runtime = executable.runtime_executable()
    return runtime is not None and runtime.local_devices()[0].platform == "cpu"


# The instructions of a computation, by name.
_Computation = dict[str, Instruction]


def _parsed(lines: Iterable[str]) -> _Computation:
    instructions = filter(None, map(Instruction.parsed, lines))
    return {instruction.name: instruction for instruction in instructions}


def _settings(instruction: Instruction) -> str:
    """Return the attributes of an instruction that affect its result."""
    return _METADATA.sub("", instruction.attributes)


def _arrangement(instruction: Instruction) -> str:
    """Return the sizes and the layout of the result, without the dtype."""
    return instruction.type[instruction.type.find("[") :]


def _sources(call: Instruction, caller: _Computation) -> list[str]:
    """Return, for each operand of a call, the value that owns the operand's buffer."""

    def source(name: str) -> str:
        instruction = caller.get(name)
        if instruction is None:
            return name
        if instruction.opcode in ("bitcast", "reshape"):
            return source(instruction.operands[0])
        if instruction.opcode == "get-tuple-element":
            return f"{source(instruction.operands[0])}{_settings(instruction)}"
        return name

    return [source(name) for name in call.operands]


@dataclass
class _Fusion:
    computation: _Computation
    sources: list[str]
    """For each parameter, the caller's value that owns its buffer."""

    _parameters: dict[str, set[str]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _expressions: dict[object, int] = field(default_factory=dict)

    def is_unsafe(self) -> bool:
        try:
            return any(map(self._is_unsafe, self._written_in_place())) or self._hides_nan()
        except (LookupError, ValueError):  # the HLO has a form that we do not parse
            return True

    def _hides_nan(self) -> bool:
        """Return whether an exponential in the fusion may depend on a constant that is NaN."""
        return any(
            instruction.opcode == _EXPONENTIAL and self._depends_on_nan(instruction.name)
            for instruction in self.computation.values()
        )

    def _depends_on_nan(self, name: str) -> bool:
        instructions = map(self.computation.__getitem__, self._reachable(name))
        return any(
            i.opcode == "constant" and i.literal.lstrip("{ -").startswith("nan")
            for i in instructions
        )

    def _written_in_place(self) -> Iterator[Instruction]:
        """Yield the writes that produce the results, looking through tuples and unary operators."""
        pending = [i for i in self.computation.values() if i.is_root]
        while pending:
            instruction = pending.pop()
            if instruction.opcode == _WRITE:
                yield instruction
            if instruction.opcode == "tuple" or len(instruction.operands) == 1:
                pending += [self.computation[name] for name in instruction.operands]
            elif instruction.opcode == _WRITE:  # the target may itself be a written value
                pending.append(self.computation[instruction.operands[0]])

    def _is_unsafe(self, write: Instruction) -> bool:
        target = self._target(write.operands[0])
        if target is None:
            # The target is not a parameter, so the update is in place only if the target is itself
            # an updated value.
            return any(
                self.computation[name].opcode == _WRITE
                for name in self._reachable(write.operands[0])
            )
        update, *starts = write.operands[1:]
        return any(target in self._reads(start) for start in starts) or not self._is_aligned(
            update, write, target
        )

    def _target(self, name: str) -> str | None:
        """Return the owner of a parameter's buffer if an expression only reshapes or converts it.

        Return None for any other expression.
        """
        instruction = self.computation[name]
        while instruction.opcode in ("bitcast", "reshape", "copy", "transpose", "convert"):
            instruction = self.computation[instruction.operands[0]]
        return self._source(instruction) if instruction.opcode == "parameter" else None

    def _source(self, parameter: Instruction) -> str:
        index = int(parameter.literal)
        return self.sources[index] if index < len(self.sources) else parameter.name

    def _reachable(self, name: str) -> set[str]:
        names: set[str] = set()
        pending = [name]
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending += self.computation[name].operands
        return names

    def _reads(self, name: str) -> set[str]:
        """Return the owners of the buffers of all parameters that an expression reads."""
        if name not in self._parameters:
            instructions = map(self.computation.__getitem__, self._reachable(name))
            self._parameters[name] = {
                self._source(i) for i in instructions if i.opcode == "parameter"
            }
        return self._parameters[name]

    def _is_aligned(self, update: str, write: Instruction, target: str) -> bool:
        """Return whether each element of the update reads only the target element it replaces."""
        pending, visited = [update], {update}
        while pending:
            instruction = self.computation[pending.pop()]
            if target not in self._reads(instruction.name) or self._is_block(instruction, write):
                continue
            operands = [self.computation[name] for name in instruction.operands]
            if instruction.opcode == "bitcast":
                # A bitcast preserves the order of elements in memory, so its result corresponds to
                # its operand element by element if both have the same number of elements.
                if instruction.element_count != operands[0].element_count:
                    return False
            elif instruction.opcode not in _ELEMENTWISE or any(
                _arrangement(operand) != _arrangement(instruction)
                for operand in operands
                if target in self._reads(operand.name)
            ):
                return False
            pending += [name for name in instruction.operands if name not in visited]
            visited.update(instruction.operands)
        return True

    def _is_block(self, read: Instruction, write: Instruction) -> bool:
        """Return whether `read` reads exactly the block that the update `write` overwrites."""
        if read.opcode == "parameter":
            return _arrangement(read) == _arrangement(write) == _arrangement(self._update(write))
        if read.opcode not in ("slice", "dynamic-slice"):
            return False
        base = self.computation[read.operands[0]]
        parameter = base
        while parameter.opcode == "bitcast":
            parameter = self.computation[parameter.operands[0]]
        if parameter.opcode != "parameter":
            return False
        if any(self._reads(index) & self._reads(base.name) for index in read.operands[1:]):
            return False
        if (
            _arrangement(base) == _arrangement(write)
            and _arrangement(read) == _arrangement(self._update(write))
            and self._starts(read) == self._starts(write)
        ):
            return True
        interval = self._interval(read, base, read)
        return interval is not None and interval == self._interval(
            write, write, self._update(write)
        )

    def _update(self, write: Instruction) -> Instruction:
        return self.computation[write.operands[1]]

    def _starts(self, access: Instruction) -> list[object] | None:
        """Return a block's start in each dimension, as an int or as an expression's string ID."""
        if access.opcode == "slice":
            match = _BOUNDS.search(access.attributes)
            bounds = _BOUND.findall(match[1]) if match else []
            if len(bounds) != len(access.sizes) or any(b[2] not in ("", "1") for b in bounds):
                # The bounds are unknown, so return a start that differs from all others.
                return [object()]
            return [int(first) for first, _, _ in bounds]
        first = 1 if access.opcode == "dynamic-slice" else 2
        return [self._index(name) for name in access.operands[first:]]

    def _index(self, name: str) -> object:
        instruction = self.computation[name]
        if instruction.opcode == "constant" and instruction.literal.isdecimal():
            return int(instruction.literal)
        return f"expression {self._number(name)}"

    def _number(self, name: str) -> int:
        """Return the value number of an expression. Equal expressions have equal numbers."""
        number = self._numbers.get(name)
        if number is None:
            instruction = self.computation[name]
            # HLO text abbreviates long constants, so such a constant equals only itself.
            literal: object = "" if instruction.operands else instruction.literal
            if "..." in instruction.literal or instruction.opcode.startswith("rng"):
                literal = name
            operands = tuple(map(self._number, instruction.operands))
            key = (instruction.opcode, instruction.type, _settings(instruction), literal, operands)
            number = self._expressions.setdefault(key, len(self._expressions))
            self._numbers[name] = number
        return number

    def _interval(
        self, access: Instruction, base: Instruction, block: Instruction
    ) -> tuple[int, int] | None:
        """Return a contiguous block's constant offset and length, or None for any other block."""
        starts = self._starts(access)
        if not (base.is_row_major and block.is_row_major) or starts is None:
            return None
        offset, stride, is_whole = 0, 1, True
        for start, size, length in reversed(
            list(zip(starts, base.sizes, block.sizes, strict=True))
        ):
            if not isinstance(start, int) or (not is_whole and length != 1):
                return None
            offset += stride * min(start, size - length)
            stride *= size
            is_whole = is_whole and length == size
        return offset, block.element_count
