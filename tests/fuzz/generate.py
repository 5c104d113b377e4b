# SPDX-License-Identifier: Apache-2.0
"""A random program for each seed."""

from __future__ import annotations

import re
import warnings

from tests.fuzz.operators import FAMILIES, Operator
from tests.fuzz.program import Program
from tests.fuzz.state import State

_SHAPES = [(), (0,), (1,), (3,), (4,), (2, 3), (3, 2), (3, 3), (1, 4), (2, 3, 2), (4, 1, 2)]
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
    ),
]
# How many of the lines that the CPU refuses stay in the program.
_REFUSED = 0.1
_NUMBERS = ["2", "-1", "0.5", "3", "0.25", "True"]
_CHOICE = re.compile(r"<(dim|int|number)>")


def generate(seed: int, *, least: int = 20, most: int = 60) -> Program:
    """Return the program of a seed: between `least` and `most` lines, each of which runs on the CPU."""
    state = State(seed)
    wanted = state.random.randint(least, most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            _add_leaf(state)
        for _ in range(wanted * 4):
            if len(state.lines) >= wanted:
                break
            roll = state.random.random()
            if roll < 0.06:
                _add_leaf(state)
            elif roll < 0.1 and len(state.tensors()) > 6:
                state.forget(state.random.choice(list(state.tensors())))
            else:
                ((_, family),) = state.random.choices(FAMILIES, [weight for weight, _ in FAMILIES])
                _add(state, state.random.choice(family))
    return state.program()


def _add_leaf(state: State) -> None:
    shape, dtype = state.random.choice(_SHAPES), state.random.choice(_DTYPES)
    seed = state.random.randrange(1000)
    kind = "specials" if state.random.random() < 0.1 else "values"
    line = f"{state.fresh()} = {kind}({shape}, torch.{dtype}, {seed})"
    if dtype == "float32" and state.random.random() < 0.4:
        line += ".requires_grad_()"
    state.add(line, reads=())


def _add(state: State, operator: Operator) -> bool:
    """Add a line of an operator, if there are tensors for it."""
    names: dict[str, str] = {}
    for place, conditions in zip("xyz", operator.conditions, strict=False):
        name = state.pick(
            lambda x, conditions=conditions: all(holds(x) for holds in conditions),  # type: ignore[misc]
            exact=operator.sharp,
        )
        if name is None:
            return False
        names[place] = name
    first = state.names[names["x"]]
    choices = {
        "dim": lambda: (
            str(state.random.randrange(-first.dim(), first.dim())) if first.dim() else "0"
        ),
        "int": lambda: str(state.random.randint(-3, 3)),
        "number": lambda: state.random.choice(_NUMBERS),
    }
    template = _CHOICE.sub(lambda match: choices[match[1]](), operator.template)
    line = template.format(out=state.fresh(), **names)
    return state.add(
        line,
        reads=tuple(names.values()),
        rounds=operator.rounds,
        refused=state.random.random() < _REFUSED,
    )
