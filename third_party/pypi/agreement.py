# SPDX-License-Identifier: Apache-2.0
"""Check that a lock matches its inputs, without network access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import InvalidRequirement, Requirement

from third_party.pypi import target
from third_party.pypi.lock import (
    Lock,
    data_only,
    digest,
    normalize,
    requirement_lines,
    torch_requirement,
    unreachable,
)

UPDATE = "Run third_party/pypi/update.py."


def problems(lock: Lock, *, requirements: str, annotations: str, torch_pin: str) -> list[str]:
    """Return a line for each mismatch between the main lock and the texts of its input files."""
    lines = requirement_lines(requirements)
    disagreements = [problem for line in lines for problem in _line_problems(lock, line)]
    alone = data_only(annotations)
    disagreements += _edge_problems(lock, lock)
    roots = [normalize(Requirement(line).name) for line in lines if _is_valid(line)]
    disagreements += [
        f"lock.json: nothing in requirements.in needs '{key}'. {UPDATE}"
        for key in sorted(unreachable(lock, roots))
    ]
    disagreements += [
        f"lock.json: '{key}' is data only (annotations.json) but requires packages. {UPDATE}"
        for key in sorted(alone & set(lock.packages))
        if lock.packages[key].requires
    ]
    expected = digest([*lines, torch_requirement(torch_pin)], alone)
    if lock.inputs != expected:
        disagreements.append(
            f"lock.json: resolved from inputs {lock.inputs[:12]}, but requirements.in,"
            f" annotations.json and third_party/torch/pin.json are {expected[:12]}. {UPDATE}"
        )
    return disagreements


def group_problems(
    name: str,
    group: Lock,
    base: Lock,
    *,
    requirements: str,
    others: Mapping[str, Lock] | None = None,
) -> list[str]:
    """Return a line for each mismatch between a group's lock and its inputs.

    `base` is the main lock, and `others` maps the names of other groups to their locks.
    """
    others = others or {}
    file = f"groups/{name}.lock.json"
    lines = requirement_lines(requirements)
    other_packages = {key: row for other in others.values() for key, row in other.packages.items()}
    all_packages = Lock(group.inputs, (), {**other_packages, **base.packages, **group.packages})
    disagreements = [
        f"{file}: '{key}' is in lock.json. {UPDATE}"
        for key in sorted(base.packages.keys() & group.packages.keys())
    ]
    disagreements += [
        f"{file}: '{key}' is in groups/{other}.lock.json. {UPDATE}"
        for other, value in sorted(others.items())
        for key in sorted(value.packages.keys() & group.packages.keys())
    ]
    for line in lines:
        disagreements += _line_problems(all_packages, line, f"groups/{name}.in")
    disagreements += _edge_problems(group, all_packages, file)
    roots = [normalize(Requirement(line).name) for line in lines if _is_valid(line)]
    disagreements += [
        f"{file}: nothing in groups/{name}.in needs '{key}'. {UPDATE}"
        for key in sorted(unreachable(all_packages, roots) & group.packages.keys())
    ]
    expected = digest(lines, [])
    if group.inputs != expected:
        disagreements.append(
            f"{file}: resolved from inputs {group.inputs[:12]}, but groups/{name}.in is"
            f" {expected[:12]}. {UPDATE}"
        )
    return disagreements


def _line_problems(lock: Lock, line: str, file: str = "requirements.in") -> list[str]:
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        return [f"{file}: '{line}': {reason}. Write NAME, NAME[EXTRA] or NAME==VERSION."]
    package = lock.packages.get(normalize(requirement.name))
    if not package:
        return [f"{file}: '{line}' is not in lock.json. {UPDATE}"]
    if not requirement.specifier.contains(package.version, prereleases=True):
        return [f"{file}: '{line}', but lock.json has {package.version}. {UPDATE}"]
    return []


def _edge_problems(lock: Lock, known: Lock, file: str = "lock.json") -> Iterable[str]:
    for key, package in sorted(lock.packages.items()):
        where = f"{file}: '{key}'"
        if target.platforms(package.filename) is None:
            yield f"{where}: '{package.filename}' is not for {target.DESCRIPTION}. {UPDATE}"
        name, version = package.filename.split("-")[:2]
        if (normalize(name), version) != (key, package.version):
            yield f"{where} {package.version}: '{package.filename}' is another package. {UPDATE}"
        for needed in package.requires:
            if needed != "torch" and needed not in known.packages:
                yield f"{where} requires '{needed}', which is not locked. {UPDATE}"
    for needed in lock.torch_requires:
        if needed not in lock.packages:
            yield f"lock.json: torch requires '{needed}', which is not locked. {UPDATE}"


def _is_valid(line: str) -> bool:
    try:
        Requirement(line)
    except InvalidRequirement:
        return False
    return True
