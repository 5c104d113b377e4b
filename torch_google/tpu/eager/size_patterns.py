# SPDX-License-Identifier: Apache-2.0
"""Finds out which sizes of an operator's calls change, from the calls that needed a program.

Different layers of a model call an operator with different sizes, but each layer's sizes stay the
same: they are all seen in the first steps. A size that changes brings a new value in later steps as
well. So a pattern counts the *rounds* in which it had new sizes. A round ends when the host reads a
value, which usually happens once per step.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from torch.multiprocessing.reductions import StorageWeakRef

# A pattern's sizes are changing once calls have had new sizes in this many rounds. Batches for
# training and for evaluation, and the last batch of each, have four sizes.
_ROUNDS = 5
# The number of rounds that a pattern remembers until its sizes are known to change.
_REMEMBERED = 8
# The number of calls and of patterns of a kind that are remembered.
_CALLS = 64
_PATTERNS = 64
# A pattern has at most this many sizes that change independently.
_SYMBOLS = 4


@dataclass(frozen=True)
class TensorLayout:
    """A tensor's strides, its offset, and the shape of its storage."""

    strides: tuple[int, ...]
    offset: int
    storage: tuple[int, ...]


@dataclass(frozen=True)
class CallSizes:
    """The sizes of a call's tensors and its integer arguments, in a fixed order.

    `owners` has the index of the tensor that each size belongs to, or -1 for an argument.
    `is_padded` says, for each tensor, whether its storage is longer than tensors need. `storages`
    are weak references to the storages.
    """

    values: tuple[int, ...]
    owners: tuple[int, ...]
    layouts: tuple[TensorLayout, ...]
    is_padded: tuple[bool, ...]
    storages: tuple[StorageWeakRef, ...] = ()

    def is_replaced_by(self, tensors: Iterable[int], call: CallSizes) -> bool:
        """Return whether each tensor's storage no longer exists or is also used by `call`.

        The sizes of parameters that still exist do not change, even if a loop over the parameters
        looks like a tensor whose size does.
        """
        return not self.storages or all(
            self.storages[tensor].expired() or self.storages[tensor] == call.storages[tensor]
            for tensor in tensors
        )


@dataclass
class SizePattern:
    """Calls that differ only in some sizes.

    `symbols` lists the sizes that change together, as (position, factor) pairs: the size at
    `position` is the factor times the symbol's value. `static` has the other sizes, as (position,
    size) pairs, and `layouts` the layouts that do not change, as (tensor, layout) pairs. `tensors`
    are the tensors whose sizes or layouts change. `storages` has the shapes of their storages,
    except for padded ones. `rounds` has the last call of each round.
    """

    symbols: tuple[tuple[tuple[int, int], ...], ...]
    tensors: frozenset[int]
    static: tuple[tuple[int, int], ...]
    layouts: tuple[tuple[int, TensorLayout], ...]
    rounds: OrderedDict[Hashable, CallSizes] = field(default_factory=OrderedDict)
    storages: dict[int, set[tuple[int, ...]]] = field(default_factory=dict)
    is_changing: bool = False

    def matches(self, call: CallSizes) -> bool:
        """Return whether a call differs from the pattern's calls only in the sizes that change."""
        values = call.values
        return (
            all(values[position] == size for position, size in self.static)
            and all(call.layouts[tensor] == layout for tensor, layout in self.layouts)
            and all(
                values[position] == factor * values[symbol[0][0]]
                for symbol in self.symbols
                for position, factor in symbol
            )
        )

    def note(self, call: CallSizes, round_: Hashable) -> None:
        """Note one of the pattern's calls."""
        if not self.is_changing:
            self.rounds[round_] = call
            # The user's code may still hold tensors of the last step, so ignore two rounds.
            earlier = list(self.rounds.values())[:-2]
            replaced = sum(each.is_replaced_by(self.tensors, call) for each in earlier)
            if replaced >= _ROUNDS - 2:
                self.is_changing = True
                self.rounds.clear()
            elif len(self.rounds) > _REMEMBERED:
                self.rounds.popitem(last=False)
        for tensor in self.tensors:
            shapes = self.storages.setdefault(tensor, set())
            if not call.is_padded[tensor] and len(shapes) < 2:
                shapes.add(call.layouts[tensor].storage)

    def storage_changes(self, tensor: int) -> bool:
        """Return whether the storages of a tensor, other than padded ones, have several shapes."""
        return len(self.storages[tensor]) > 1

    def symbol_values(self, call: CallSizes) -> tuple[int, ...]:
        """Return the value of each symbol in a call."""
        return tuple(call.values[symbol[0][0]] for symbol in self.symbols)


class SizeHistory:
    """The sizes of all calls of one kind, which differ only in sizes and layouts."""

    def __init__(self) -> None:
        self._calls: deque[tuple[CallSizes, Hashable]] = deque(maxlen=_CALLS)
        self._patterns: OrderedDict[Hashable, SizePattern] = OrderedDict()
        self._lock = threading.Lock()

    def pattern(self, call: CallSizes, round_: Hashable) -> SizePattern | None:
        """Note a call that has no program. Return its pattern if the pattern's sizes change."""
        with self._lock:
            key = next((key for key, p in self._patterns.items() if p.matches(call)), None)
            if key is None:
                found = self._new_pattern(call, round_)
            else:
                self._patterns.move_to_end(key)
                found = self._patterns[key]
            self._calls.append((call, round_))
            if found is None:
                return None
            found.note(call, round_)
            return found if found.is_changing else None

    def _new_pattern(self, call: CallSizes, round_: Hashable) -> SizePattern | None:
        """Return a pattern of this call and the most similar one of an earlier round.

        Calls of the same round come from different layers of a model.
        """
        nearest: tuple[int, int] | None = None
        chosen: tuple[SizePattern, CallSizes, Hashable] | None = None
        for earlier, its_round in reversed(self._calls):
            if its_round == round_:
                continue
            pattern = _pattern(earlier, call)
            if pattern is None:
                continue
            distance = len(pattern.symbols), len(call.values) - len(pattern.static)
            if nearest is None or distance < nearest:
                nearest, chosen = distance, (pattern, earlier, its_round)
        if chosen is None:
            return None
        pattern, earlier, its_round = chosen
        pattern.note(earlier, its_round)
        key = (pattern.symbols, pattern.tensors, pattern.static, pattern.layouts)
        self._patterns[key] = pattern
        if len(self._patterns) > _PATTERNS:
            self._patterns.popitem(last=False)
        return pattern


def _pattern(earlier: CallSizes, call: CallSizes) -> SizePattern | None:
    changed = [
        position
        for position, (a, b) in enumerate(zip(earlier.values, call.values, strict=True))
        if a != b
    ]
    symbols = _symbols(earlier.values, call.values, changed)
    if symbols is None:
        return None
    tensors = {call.owners[position] for position in changed} - {-1}
    tensors |= {
        tensor
        for tensor, (a, b) in enumerate(zip(earlier.layouts, call.layouts, strict=True))
        if a != b
    }
    storages = zip(earlier.layouts, call.layouts, strict=True)
    if not changed and all(a.storage == b.storage for a, b in storages):
        return None  # a view that moves: see moving_views.py
    still = [position for position in range(len(call.values)) if position not in changed]
    return SizePattern(
        symbols,
        frozenset(tensors),
        tuple((position, call.values[position]) for position in still),
        tuple(
            (tensor, layout) for tensor, layout in enumerate(call.layouts) if tensor not in tensors
        ),
    )


def _symbols(
    earlier: Sequence[int], later: Sequence[int], changed: Sequence[int]
) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """Group the positions whose sizes have the same ratio in both calls. None if too many change.

    Sizes below 2 are never symbols, because torch treats them differently.
    """
    groups: list[list[tuple[int, int]]] = []
    for position in sorted(changed, key=lambda p: (earlier[p], p)):
        if min(earlier[position], later[position]) < 2:
            return None
        for group in groups:
            first = group[0][0]
            factor, rest = divmod(earlier[position], earlier[first])
            if not rest and later[position] == factor * later[first]:
                group.append((position, factor))
                break
        else:
            groups.append([(position, 1)])
    if len(groups) > _SYMBOLS:
        return None
    return tuple(tuple(group) for group in groups)
