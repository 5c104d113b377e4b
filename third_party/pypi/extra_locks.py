# SPDX-License-Identifier: Apache-2.0
"""Resolve another workspace's extra locks, which extend torch_google's locks.

A build has only one version of a package. Therefore torch_google's versions remain unchanged, and
an extra lock contains only packages that torch_google's locks lack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from third_party.pypi import lock, resolution
from third_party.pypi.lock import Lock, Package
from third_party.pypi.resolution import Ask, Rows

_TORCH = "torch"


class PinnedError(Exception):
    """Raised if a workspace requires a different version of a package than torch_google pins."""


@dataclass(frozen=True)
class Base:
    """torch_google's packages, including torch itself, whose versions must not change."""

    rows: Rows
    torch: str

    @staticmethod
    def of(locks: Collection[Lock], *, torch: str) -> Base:
        """Return torch and the packages in `locks`. `torch` is the requirement `torch==VERSION`."""
        distribution, version = torch.split("==")
        rows = {key: row for value in locks for key, row in value.packages.items()}
        return Base({**rows, _TORCH: Package(distribution, version, "", "", ())}, torch)


def update(
    old: Mapping[str, Lock],
    inputs: Mapping[str, Sequence[str]],
    *,
    base: Base,
    upgrade: Collection[str] = (),
    ask: Ask,
) -> dict[str, Lock]:
    """Return a lock for each file in `inputs`, which maps file names to requirement lines.

    A package that several files need is recorded in the lock for the first of them. `upgrade`
    contains keys of packages or `resolution.EVERYTHING`. `ask` is a function that runs pip. The
    torch wheel that pip finds must have the same requirements as the pinned one.
    """
    _check(inputs, base, upgrade)
    lines = [line for file in inputs.values() for line in file]
    before = [line for value in old.values() for line in value.requirements]
    locked = {key: row for value in old.values() for key, row in value.packages.items()}
    held = {key: row for key, row in base.rows.items() if key != _TORCH}
    if not any("[" in line for line in set(before) - set(lines)):
        # An old lock may also list a package of torch_google's locks, with the requirements of
        # extras that those locks lack. Keep these requirements.
        held = {key: _extended(row, locked.get(key)) for key, row in held.items()}
    rows, _ = resolution.solve(
        lines,
        before=before,
        own={key: row for key, row in locked.items() if key not in held},
        base=held,
        upgrade=upgrade,
        keep=all(
            key in base.rows and base.rows[key].version == version
            for value in old.values()
            for key, version in value.resolved_with.items()
        ),
        ask=ask,
        torch=base.torch,
        with_torch=False,
        firm_hint="The versions of torch_google's locks stay: ask for versions that go with them.",
    )
    assigned: set[str] = set()
    locks = {}
    for file, file_lines in inputs.items():
        locks[file] = _lock(file_lines, rows, base, assigned)
        assigned |= locks[file].packages.keys()
    return locks


def _check(inputs: Mapping[str, Sequence[str]], base: Base, upgrade: Collection[str]) -> None:
    # Import `resolve` here, because it needs `packaging`, and update.py may have to add pip's copy
    # to sys.path first.
    from third_party.pypi import resolve

    for file, lines in inputs.items():
        for line in lines:
            row = base.rows.get(lock.requirement_key(line))
            if row and not resolve.admits(line, row.version):
                raise PinnedError(
                    f"{file}: '{line}', but torch_google pins {row.distribution} {row.version}. A"
                    " build has one version of a package: change the line to allow that one, or"
                    " the pin in torch_google."
                )
    for key in upgrade:
        if key in base.rows:
            raise PinnedError(
                f"--upgrade {key}: torch_google pins {key} {base.rows[key].version}. A build has one"
                " version of a package: upgrade it in torch_google."
            )


def _lock(lines: Sequence[str], rows: Rows, base: Base, assigned: Collection[str]) -> Lock:
    roots = [lock.requirement_key(line) for line in lines]
    keys = lock.reachable(rows, roots)
    packages = {
        key: rows[key]
        for key in keys - set(assigned)
        # Include a package of torch_google's locks only if its entry in those locks lacks the
        # requirements of an extra that this lock needs.
        if key not in base.rows or set(rows[key].requires) != set(base.rows[key].requires)
    }
    edges = {*roots, *(edge for row in packages.values() for edge in row.requires)}
    return Lock(
        inputs=lock.digest(lines, []),
        torch_requires=(),
        packages=packages,
        requirements=tuple(sorted(lines)),
        resolved_with={key: base.rows[key].version for key in sorted(edges & base.rows.keys())},
    )


def _extended(row: Package, other: Package | None) -> Package:
    return resolution.joined(row, other) if other and other.version == row.version else row
