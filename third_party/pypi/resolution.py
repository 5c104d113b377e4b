# SPDX-License-Identifier: Apache-2.0
"""From the inputs and the locks as they are to the new locks, with as little of pip as will do.

Locked versions stay. If the inputs only gained or lost lines, pip is asked about the new lines alone,
with every locked version as a constraint: what was consistent stays so. Otherwise it is asked
about all lines. `@pypi//NAME` is one wheel, so a package has one version in all locks: the main
lock chooses first, then all groups at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from third_party.pypi import lock
from third_party.pypi.lock import Lock, Package
from third_party.pypi.pip_report import MAX_RETRIES, ConflictError

EVERYTHING = "*"

Rows = Mapping[str, Package]


class Ask(Protocol):
    """pip: the installation report for requirement lines. See `pip_report.ask`."""

    def __call__(
        self,
        lines: Sequence[str],
        *,
        constraints: Iterable[str],
        needs: bool = True,
        max_retries: int | None = MAX_RETRIES,
    ) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Inputs:
    """The input files. `alone` has the keys of the packages that come without their needs."""

    lines: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    torch: str
    alone: frozenset[str]


@dataclass(frozen=True)
class Locks:
    """The main lock, and those of the groups by name."""

    main: Lock | None
    groups: Mapping[str, Lock]

    def keys(self) -> set[str]:
        """The keys of all packages."""
        locks = [self.main, *self.groups.values()] if self.main else self.groups.values()
        return {key for value in locks for key in value.packages}


def update(
    old: Locks,
    inputs: Inputs,
    *,
    upgrade: Collection[str] = (),
    ask: Ask,
    torch_needs: Callable[[], tuple[str, ...]],
) -> Locks:
    """Return the locks for `inputs`; `upgrade` has keys, or EVERYTHING.

    `ask` must know a torch that has the needs which `torch_needs` returns.
    """
    main = _main(old.main, inputs, upgrade=upgrade, ask=ask, torch_needs=torch_needs)
    return Locks(main, _groups(old, main, inputs, upgrade=upgrade, ask=ask))


def _main(
    old: Lock | None,
    inputs: Inputs,
    *,
    upgrade: Collection[str],
    ask: Ask,
    torch_needs: Callable[[], tuple[str, ...]],
) -> Lock:
    from third_party.pypi import resolve  # Imports packaging, which may be pip's own.

    alone = inputs.alone
    # The same torch and the same packages without needs.
    same = old is not None and old.inputs == lock.digest([*old.requirements, inputs.torch], alone)
    known = old.packages if old else {}
    data = [line for line in inputs.lines if lock.requirement_key(line) in alone]
    code = [line for line in inputs.lines if line not in data]
    before = [
        line
        for line in (old.requirements if old else ())
        if lock.requirement_key(line) not in alone
    ]
    rows, torch = _solve(
        code,
        before=before,
        own=known,
        base={},
        upgrade=upgrade,
        keep=same,
        ask=ask,
        torch=inputs.torch,
        with_torch=True,
    )
    rows = dict(rows)
    unlocked = [line for line in data if not _settled(line, known, upgrade)]
    if unlocked:
        report = ask(unlocked, constraints=_held(known, unlocked, upgrade), needs=False)
        rows |= resolve.packages(_without_needs(report), unlocked)
    rows |= {
        key: known[key]
        for key in map(lock.requirement_key, data)
        if key in known and key not in rows
    }
    torch_requires = torch.requires if torch else old.torch_requires if old else ()
    roots = [*map(lock.requirement_key, inputs.lines), *torch_requires]
    keys = lock.reachable(rows, roots)
    return Lock(
        inputs=lock.digest([*inputs.lines, inputs.torch], alone),
        torch_requires=torch_requires,
        packages={key: rows[key] for key in keys},
        requirements=tuple(sorted(inputs.lines)),
        torch_needs=torch_needs(),
    )


def _groups(
    old: Locks, main: Lock, inputs: Inputs, *, upgrade: Collection[str], ask: Ask
) -> dict[str, Lock]:
    base = main.packages
    locked = {key: row for value in old.groups.values() for key, row in value.packages.items()}
    earlier = {**locked, **(old.main.packages if old.main else {})}
    # A version that the main lock moved may be one that a group's packages do not take.
    keep = all(base[key].version == earlier[key].version for key in base.keys() & earlier.keys())
    rows, _ = _solve(
        [line for lines in inputs.groups.values() for line in lines],
        before=[line for value in old.groups.values() for line in value.requirements],
        # What the main lock does not need any more, a group may.
        own={key: row for key, row in earlier.items() if key not in base},
        base=base,
        upgrade=upgrade,
        keep=keep,
        ask=ask,
        torch=inputs.torch,
        with_torch=False,
    )
    placed = set(base)
    locks = {}
    for name, lines in sorted(inputs.groups.items()):
        keys = lock.reachable(rows, map(lock.requirement_key, lines)) - placed
        placed |= keys
        locks[name] = Lock(
            inputs=lock.digest(lines, []),
            torch_requires=(),
            packages={key: rows[key] for key in keys},
            requirements=tuple(sorted(lines)),
        )
    return locks


def _solve(
    lines: Sequence[str],
    *,
    before: Sequence[str],
    own: Rows,
    base: Rows,
    upgrade: Collection[str],
    keep: bool,
    ask: Ask,
    torch: str,
    with_torch: bool,
) -> tuple[Rows, Package | None]:
    """Return the rows for `lines`, `base` among them, and torch's if pip was asked about it.

    `own` may be freed, `base` may not. `before` are the lines that `own` was resolved from. Without
    `keep`, pip is asked about every line, and about torch itself if `with_torch`.
    """
    from third_party.pypi import resolve

    locked = {**own, **base}
    fresh = [line for line in lines if line not in before]
    gone = [line for line in before if line not in lines]
    if (
        not keep
        or EVERYTHING in upgrade
        or own.keys() & set(upgrade)
        or any("[" in line for line in gone)  # Its extras are among the edges of `own`.
        or not all(_admitted(line, locked) for line in fresh)
    ):
        fresh, kept = [*([torch] if with_torch else []), *lines], base
    else:
        kept = locked
    if not fresh:
        return kept, None
    firm = [torch, *_held(base)]
    soft = list(_held(own, () if kept is locked else lines, upgrade))
    limit = None if EVERYTHING in upgrade else MAX_RETRIES
    try:
        report = ask(fresh, constraints=[*firm, *soft], max_retries=limit)
    except ConflictError as error:
        blamed = _in_the_way(fresh, firm, soft, ask)
        raise ConflictError(f"{error}. {blamed}") from None
    rows = resolve.packages(report, fresh)
    torch_row = rows.pop("torch", None)
    return {**rows, **{key: _joined(kept[key], rows.get(key)) for key in kept}}, torch_row


def _in_the_way(lines: Sequence[str], firm: Sequence[str], soft: Sequence[str], ask: Ask) -> str:
    """The next step: the locked versions that pip would not choose for `lines` if it were free."""
    try:
        report = ask(lines, constraints=firm)
    except ConflictError:
        return (
            "Locked versions of groups are not the cause; add --upgrade alone, or edit the inputs."
        )
    free = {lock.normalise(row["metadata"]["name"]): row["metadata"] for row in report["install"]}
    keys = [lock.requirement_key(line) for line in soft]
    moved = [
        key
        for key, line in zip(keys, soft, strict=True)
        if key in free and not line.endswith(f"=={free[key]['version']}")
    ]
    return f"Without the locks pip moves these: add {' '.join(f'--upgrade {key}' for key in moved)}"


def _joined(row: Package, other: Package | None) -> Package:
    """`row`, which may have come to need more: a new line can ask for its extras."""
    needed = {*row.requires, *(other.requires if other else ())} - {"torch"}
    return dataclasses.replace(row, requires=tuple(sorted(needed)))


def _settled(line: str, locked: Rows, upgrade: Collection[str]) -> bool:
    key = lock.requirement_key(line)
    return key in locked and _admitted(line, locked) and not {EVERYTHING, key} & set(upgrade)


def _admitted(line: str, locked: Rows) -> bool:
    """Whether the locked version is one that `line` allows; so is a package that is not locked."""
    from third_party.pypi import resolve

    row = locked.get(lock.requirement_key(line))
    return not row or resolve.admits(line, row.version)


def _held(rows: Rows, lines: Iterable[str] = (), upgrade: Collection[str] = ()) -> Iterable[str]:
    """Constraints that hold `rows`, less what is upgraded and what `lines` pin themselves."""
    free = {*upgrade, *(lock.requirement_key(line) for line in lines if "==" in line)}
    if EVERYTHING in free:
        return
    for key, row in sorted(rows.items()):
        if key not in free:
            yield f"{row.distribution}=={row.version}"


def _without_needs(report: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        {**row, "metadata": {**row["metadata"], "requires_dist": []}} for row in report["install"]
    ]
    return {**report, "install": rows}
