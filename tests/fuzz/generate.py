# SPDX-License-Identifier: Apache-2.0
"""Generate a random program for each seed."""

from __future__ import annotations

import re
import warnings

import torch

from tests.fuzz.operators import FAMILIES
from tests.fuzz.program import Program
from tests.fuzz.state import State
from tests.fuzz.template import Operator, is_filled

_SHAPES = [
    *((), (0,), (1,), (3,), (4,), (2, 3), (3, 2), (3, 3), (1, 4), (2, 3, 2), (4, 1, 2)),
    *((0, 3), (2, 0), (2, 2)),
]
_DTYPES = [
    *["float32"] * 6,
    *(
        "float64",
        "bfloat16",
        "float16",
        "int64",
        "int64",
        "int32",
        "int8",
        "uint8",
        "bool",
        "complex64",
        "complex64",
    ),
]
_DIFFERENTIABLE = ("float32", "float64", "bfloat16", "complex64")
# The probability that a line remains in the program if the CPU unexpectedly rejects it.
_REFUSED = 0.1
# The probability that a line ignores the conditions of its template. Such a line remains in the
# program only if the CPU rejects it.
_WILD = 0.06
_NUMBERS = ["2", "-1", "0.5", "3", "0.25", "True"]
_SCALARS = [*_NUMBERS, "1j", "-2.5", "False", "300"]
_CHOICE = re.compile(r"<(dim|int|number|scalar|seed)>")


def generate(seed: int, *, least: int = 20, most: int = 60) -> Program:
    """Return the program for a seed, with roughly `least` to `most` lines."""
    return grow(seed, least=least, most=most).program()


def grow(seed: int, *, least: int = 20, most: int = 60) -> State:
    """Return the state after generating the program for a seed. The caller may add lines to it."""
    state = State(seed)
    length = state.random.randint(least, most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            _add_leaf(state)
        for _ in range(length * 4):
            if len(state.lines) >= length:
                break
            roll = state.random.random()
            if roll < 0.06:
                _add_leaf(state)
            elif roll < 0.1 and len(state.tensors()) > 6:
                state.forget(state.random.choice(list(state.tensors())))
            else:
                ((_, family),) = state.random.choices(FAMILIES, [weight for weight, _ in FAMILIES])
                add_line(state, state.random.choice(family))
    return state


def add_line(state: State, operator: Operator) -> bool:
    """Try to add a line that uses the operator. Return whether it ran or failed as expected."""
    wild = not (operator.values or operator.tame) and state.random.random() < _WILD
    names: dict[str, str] = {}
    for placeholder, conditions in zip("xyz", operator.conditions, strict=False):
        name = state.pick(
            lambda x, conditions=conditions: (
                is_filled(x) if wild else all(holds(x) for holds in conditions)
            ),  # type: ignore[misc]
            exact=operator.sharp and not wild,
        )
        if name is None:
            return False
        names[placeholder] = name
    first = state.names[names["x"]]
    choices = {
        "dim": lambda: (
            str(state.random.randrange(-first.dim(), first.dim())) if first.dim() else "0"
        ),
        "int": lambda: str(state.random.randint(-3, 3)),
        "number": lambda: state.random.choice(_NUMBERS),
        "scalar": lambda: state.random.choice(_SCALARS),
        "seed": lambda: str(state.random.randrange(1000)),
    }
    template = _CHOICE.sub(lambda match: choices[match[1]](), operator.template)
    line = template.format(out=state.fresh(), **names)
    if "1j" in line and any(state.names[name].dtype == torch.float16 for name in names.values()):
        return False  # JAX lacks complex32, so the device rejects the line before any other check.
    if wild or operator.refused:
        return state.add_if_refused(line, by_value=operator.values)
    return state.add(
        line,
        reads=tuple(names.values()),
        rounds=operator.rounds,
        refused=state.random.random() < _REFUSED,
    )


def _add_leaf(state: State) -> None:
    shape, dtype = state.random.choice(_SHAPES), state.random.choice(_DTYPES)
    seed = state.random.randrange(1000)
    kind = "specials" if state.random.random() < 0.1 else "values"
    line = f"{state.fresh()} = {kind}({shape}, torch.{dtype}, {seed})"
    if dtype in _DIFFERENTIABLE and state.random.random() < 0.4:
        line += ".requires_grad_()"
    state.add(line, reads=())
