# SPDX-License-Identifier: Apache-2.0
"""Update the locks for changed inputs, with as few requests to pip as possible.

Locked versions change only when necessary. If requirement lines were only added or removed, pip
resolves only the new lines, with every locked version as a constraint. Otherwise, pip resolves all
lines. A package has only one version across all locks, because `@pypi//NAME` is one wheel.
Therefore the main lock is resolved first, then all groups together.
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
    """A function, such as `pip_report.ask`, that returns pip's installation report for `lines`."""

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
    """The contents of the input files.

    `alone` contains the keys of the packages that are locked without their dependencies, because
    only their data files are used.
    """

    lines: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    torch: str
    alone: frozenset[str]


@dataclass(frozen=True)
class Locks:
    """The main lock, and the locks of the groups, keyed by group name."""

    main: Lock | None
    groups: Mapping[str, Lock]

    def keys(self) -> set[str]:
        """Return the keys of all packages that appear in any lock."""
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
    """Return the locks for `inputs`. `upgrade` contains keys of packages, or EVERYTHING.

    `ask` is a function that runs pip. The torch wheel that pip finds must have the requirements
    that `torch_needs` returns.
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
    # Import `resolve` here, because it needs `packaging`, and update.py may have to add pip's copy
    # to sys.path first.
    from third_party.pypi import resolve

    alone = inputs.alone
    # Whether the version of torch and the set of data-only packages are unchanged.
    unchanged = old is not None and old.inputs == lock.digest(
        [*old.requirements, inputs.torch], alone
    )
    locked = old.packages if old else {}
    data = [line for line in inputs.lines if lock.requirement_key(line) in alone]
    code = [line for line in inputs.lines if line not in data]
    before = [
        line
        for line in (old.requirements if old else ())
        if lock.requirement_key(line) not in alone
    ]
    rows, torch = solve(
        code,
        before=before,
        own=locked,
        base={},
        upgrade=upgrade,
        keep=unchanged,
        ask=ask,
        torch=inputs.torch,
        with_torch=True,
    )
    rows = dict(rows)
    unlocked = [line for line in data if not _settled(line, locked, upgrade)]
    if unlocked:
        report = ask(unlocked, constraints=_held(locked, unlocked, upgrade), needs=False)
        rows |= resolve.packages(_without_needs(report), unlocked)
    rows |= {
        key: locked[key]
        for key in map(lock.requirement_key, data)
        if key in locked and key not in rows
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
    # If a version changed in the main lock, the groups' packages may not accept the new version, so
    # resolve all of the groups' lines again.
    keep = all(base[key].version == earlier[key].version for key in base.keys() & earlier.keys())
    rows, _ = solve(
        [line for lines in inputs.groups.values() for line in lines],
        before=[line for value in old.groups.values() for line in value.requirements],
        # Include packages that the main lock dropped, because a group may still need one.
        own={key: row for key, row in earlier.items() if key not in base},
        base=base,
        upgrade=upgrade,
        keep=keep,
        ask=ask,
        torch=inputs.torch,
        with_torch=False,
    )
    assigned = set(base)
    locks = {}
    for name, lines in sorted(inputs.groups.items()):
        keys = lock.reachable(rows, map(lock.requirement_key, lines)) - assigned
        assigned |= keys
        locks[name] = Lock(
            inputs=lock.digest(lines, []),
            torch_requires=(),
            packages={key: rows[key] for key in keys},
            requirements=tuple(sorted(lines)),
        )
    return locks


def solve(
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
    firm_hint: str = "Locked versions of groups are not the cause; add --upgrade alone, or edit the"
    " inputs.",
) -> tuple[Rows, Package | None]:
    """Return the lock entries for `lines` and `base`, and torch's entry.

    torch's entry is None if pip did not resolve torch. The versions in `own` may change; those in
    `base` may not. `before` contains the requirement lines that `own` was resolved from. If `keep`
    is false, pip resolves all lines and, if `with_torch` is true, also torch. `firm_hint` is the
    advice to print if the versions in `base` cause a conflict.
    """
    from third_party.pypi import resolve

    locked = {**own, **base}
    fresh = [line for line in lines if line not in before]
    removed = [line for line in before if line not in lines]
    if (
        not keep
        or EVERYTHING in upgrade
        or own.keys() & set(upgrade)
        or any("[" in line for line in removed)  # `own` still has the extra's requirements.
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
        next_step = _in_the_way(fresh, firm, soft, ask) or firm_hint
        raise ConflictError(f"{error}. {next_step}") from None
    rows = resolve.packages(report, fresh)
    torch_row = rows.pop("torch", None)
    return {**rows, **{key: joined(kept[key], rows.get(key)) for key in kept}}, torch_row


def joined(row: Package, other: Package | None) -> Package:
    """Return `row` with the requirements of `other` added.

    Both are lock entries for the same package, but may be for different extras.
    """
    needed = {*row.requires, *(other.requires if other else ())}
    return dataclasses.replace(row, requires=tuple(sorted(needed)))


def _in_the_way(
    lines: Sequence[str], firm: Sequence[str], soft: Sequence[str], ask: Ask
) -> str | None:
    """Return advice that names the locked packages to upgrade so that pip can resolve `lines`.

    Return None if pip cannot resolve `lines` even with only the constraints in `firm`.
    """
    if not soft:
        return None
    try:
        report = ask(lines, constraints=firm)
    except ConflictError:
        return None
    free = {lock.normalize(row["metadata"]["name"]): row["metadata"] for row in report["install"]}
    keys = [lock.requirement_key(line) for line in soft]
    moved = [
        key
        for key, line in zip(keys, soft, strict=True)
        if key in free and not line.endswith(f"=={free[key]['version']}")
    ]
    options = " ".join(f"--upgrade {key}" for key in moved)
    return f"Without the locks, pip would change these packages: add {options}"


def _settled(line: str, locked: Rows, upgrade: Collection[str]) -> bool:
    key = lock.requirement_key(line)
    return key in locked and _admitted(line, locked) and not {EVERYTHING, key} & set(upgrade)


def _admitted(line: str, locked: Rows) -> bool:
    """Return whether `line` allows its package's locked version, or True if none is locked."""
    from third_party.pypi import resolve

    row = locked.get(lock.requirement_key(line))
    return not row or resolve.admits(line, row.version)


def _held(rows: Rows, lines: Iterable[str] = (), upgrade: Collection[str] = ()) -> Iterable[str]:
    """Yield constraints for the lock entries `rows`, but not for packages that are in `upgrade`.

    Also omit packages that `lines` pin with `==`. If `upgrade` contains EVERYTHING, yield none.
    """
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
