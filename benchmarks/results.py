# SPDX-License-Identifier: Apache-2.0
"""The file format of benchmark results.

A file is a JSON object that describes one run on one machine:

| key | value |
|---|---|
| `benchmark` | a key of SECTIONS in `figures.py`, usually a directory in benchmarks/ |
| `date` | day of the run, YYYY-MM-DD |
| `commit` | commit of this repository, with a `+` if the tree had uncommitted changes |
| `machine` | `cores`, `memory_gb`, `system` and `note`; never a host name or a path |
| `note` | remarks about the whole run |
| `figures` | list of objects with the fields of `Figure`; an absent field was not measured |
| `details` | other data from the benchmark, which no table shows |
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]


class ResultsError(ValueError):
    """An invalid results file. The message names the file and the key, and says how to fix it."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine of a run. A field is None if it was not recorded."""

    cores: int | None
    memory_gb: int | None
    system: str | None
    note: str = ""

    def words(self) -> str:
        """Return the description as one line, for example `2 cores, 24 GB, Debian 12`."""
        parts = [
            "" if self.cores is None else f"{self.cores} cores",
            "" if self.memory_gb is None else f"{self.memory_gb} GB",
            self.system or "",
        ]
        line = ", ".join(part for part in parts if part)
        return "; ".join(part for part in (line, self.note) if part)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """A row of results: the cost of a `case` for a `subject`.

    Seconds are medians over `runs`. A ratio is the median of the ratios to `peer` within each
    round, so it may differ from the quotient of the two medians. Any other measurement is `number`,
    in `unit`; if it is a count out of a total, that total is `total`.
    """

    case: str
    subject: str
    peer: str | None = None
    threads: int | None = None
    runs: int | None = None
    cpu_seconds: float | None = None
    cpu_ratio: float | None = None
    wall_seconds: float | None = None
    wall_ratio: float | None = None
    peak_mib: float | None = None
    number: float | None = None
    total: float | None = None
    unit: str | None = None
    note: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """One run of a benchmark."""

    benchmark: str
    date: str
    commit: str
    machine: Machine
    figures: tuple[Figure, ...]
    note: str = ""
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def write(
    path: Path,
    benchmark: str,
    figures: Sequence[Figure],
    *,
    details: Mapping[str, Any] | None = None,
    note: str = "",
) -> None:
    """Write the results of a run atomically, with the current commit, date and machine."""
    save(
        path,
        Results(
            benchmark=benchmark,
            date=datetime.date.today().isoformat(),
            commit=_commit(),
            machine=this_machine(),
            figures=tuple(figures),
            details=details or {},
            note=note,
        ),
    )


def save(path: Path, results: Results) -> None:
    """Replace `path` atomically. Raises ResultsError if `read` would reject the results."""
    text = _dumps(results)
    _parse(json.loads(text), str(path))
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: Path) -> Results:
    """Read the results of a run. Raises ResultsError if the file is invalid."""
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")), path.name)
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path.name}: not JSON: {error}. Write it with results.save") from None


def this_machine() -> Machine:
    """Describe this machine: system, memory, load, and the processors that this process may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(memory / 2**30),
        system=_system(),
        note=f"load {os.getloadavg()[0]:.1f} at the end",
    )


def _system() -> str:
    try:
        release = Path("/etc/os-release").read_text(encoding="utf-8")
    except FileNotFoundError:
        return "Linux"
    fields = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', release))
    return f"{fields.get('NAME', 'Linux').split()[0]} {fields.get('VERSION_ID', '')}".strip()


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "--short=8", "HEAD")
    return (commit or "unknown") + ("+" if commit and git("status", "--porcelain") else "")


def _dumps(results: Results) -> str:
    fields = {key: value for key, value in dataclasses.asdict(results).items() if value}
    fields["figures"] = [
        {key: value for key, value in dataclasses.asdict(figure).items() if value is not None}
        for figure in results.figures
    ]
    if not results.machine.note:
        del fields["machine"]["note"]
    return json.dumps(fields, indent=1) + "\n"


def _parse(fields: Any, name: str) -> Results:
    """Convert JSON to Results. Check every key and type, so that a typo cannot lose a figure."""
    _check_keys(fields, Results, name)
    for key in ("benchmark", "commit"):
        if not isinstance(fields[key], str) or not fields[key]:
            raise ResultsError(f"{name}: {key} is {fields[key]!r}, expected words")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", str(fields["date"])):
        raise ResultsError(f"{name}: date is {fields['date']!r}, expected YYYY-MM-DD")
    _check_keys(fields["machine"], Machine, f"{name}: machine")
    machine = Machine(**fields["machine"])
    if "/" in machine.words():
        raise ResultsError(f"{name}: machine has a path: {machine.words()!r}. Describe it in words")
    figures = []
    for index, figure in enumerate(fields["figures"]):
        where = f"{name}: figures[{index}]"
        _check_keys(figure, Figure, where)
        _check_numbers(figure, where)
        figures.append(Figure(**figure))
    return Results(**{**fields, "machine": machine, "figures": tuple(figures)})


def _check_keys(fields: Any, kind: type[Any], where: str) -> None:
    if not isinstance(fields, dict):
        raise ResultsError(f"{where}: found {type(fields).__name__}, expected an object")
    known = {field.name: field for field in dataclasses.fields(kind)}
    missing = [
        name
        for name, field in known.items()
        if name not in fields
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if unknown := sorted(set(fields) - set(known)):
        raise ResultsError(f"{where}: unknown key {unknown[0]!r}. Known are {', '.join(known)}")
    if missing:
        raise ResultsError(f"{where}: no {missing[0]!r}. Add it")


def _check_numbers(figure: Mapping[str, Any], where: str) -> None:
    text_keys = ("case", "subject", "peer", "unit", "note")
    for key, value in figure.items():
        if key in text_keys:
            if not isinstance(value, str):
                raise ResultsError(f"{where}: {key} is {value!r}, expected words")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise ResultsError(f"{where}: {key} is {value!r}, expected a number")
        elif not math.isfinite(value):
            raise ResultsError(f"{where}: {key} is {value}, expected a finite number")
    measured = set(figure) - {*text_keys, "threads", "runs", "total"}
    if not measured:
        raise ResultsError(f"{where}: no number. Add what was measured, as cpu_ratio")
    if {"cpu_ratio", "wall_ratio"} & measured and "peer" not in figure:
        raise ResultsError(f"{where}: a ratio without a 'peer'. Name what it is compared with")
