# SPDX-License-Identifier: Apache-2.0
"""Measure the sizes and the starts of one program in several forms, in interleaved rounds."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.par_startup.measure import Peer, Sample, interleaved, start
from benchmarks.programs.forms import ENVIRONMENT, Form, Par, size, total
from benchmarks.results import Figure

SHIPPED, ON_DISK = "Shipped", "On disk after a start"
FROM_SHIPPED = "From the shipped files to the end of the first start"
SET_UP, FIRST, WARM = "Set-up alone", "First start alone", "Warm start"
SECOND = "Added to the cache by `import torch` in a second program"
_CHUNK = 1 << 20


@dataclasses.dataclass
class Observations:
    """The measurements of one form. Sizes are in bytes; a list has a sample for each round."""

    shipped: int = 0
    on_disk: int = 0
    set_up: list[Sample] = dataclasses.field(default_factory=list)
    first: list[Sample] = dataclasses.field(default_factory=list)
    warm: list[Sample] = dataclasses.field(default_factory=list)

    def from_shipped(self) -> list[Sample]:
        """Return the cost of set-up and first start of each round."""
        if not self.set_up:
            return self.first
        return [total(pair) for pair in zip(self.set_up, self.first, strict=True)]


def observe(forms: Sequence[Form], *, rounds: int, warm_rounds: int) -> dict[str, Observations]:
    """Measure all forms once per round, and rotate the order so that load affects all equally.

    The result's keys are the names of the peers. At the end, all forms are set up and have run.
    """
    observed = {form.peer.name: Observations() for form in forms}
    for number in range(rounds):
        index = number % len(forms)
        for form in (*forms[index:], *forms[:index]):
            _observe_first(form, observed[form.peer.name])
    warm = interleaved([form.peer for form in forms], rounds=warm_rounds)
    for name, samples in warm.items():
        observed[name].warm = samples
    return observed


def _observe_first(form: Form, observations: Observations) -> None:
    form.clear()
    for path in form.inputs:
        _read(path)
    # Otherwise, the time of a form would include the write-back of the previous form's files.
    os.sync()
    set_up = form.set_up()
    if set_up:
        observations.set_up.append(set_up)
    observations.shipped = form.shipped()
    observations.first.append(start(form.peer))
    observations.on_disk = form.on_disk()


class Copy:
    """A copy of the cache of `par`, which must have run: a lower bound for its first start."""

    def __init__(self, name: str, par: Par, directory: Path) -> None:
        self._par, self._target = par, directory / "copy"
        directory.mkdir(parents=True, exist_ok=True)
        command = ("/bin/cp", "-r", str(par.cache), str(self._target))
        self.peer = Peer(name, command, ENVIRONMENT, expected=b"")

    def observe(self, rounds: int) -> list[Sample]:
        samples = []
        for _ in range(rounds):
            _read(self._par.cache)
            os.sync()
            samples.append(start(self.peer))
            shutil.rmtree(self._target)
        return samples


def figures(observed: Mapping[str, Observations], *, base: str) -> list[Figure]:
    """Return the figures of all forms, by case. Ratios are relative to the form `base`."""
    return [
        *(_bytes(SHIPPED, name, row.shipped) for name, row in observed.items()),
        *(_bytes(ON_DISK, name, row.on_disk) for name, row in observed.items()),
        *_times(FROM_SHIPPED, {name: row.from_shipped() for name, row in observed.items()}, base),
        *_times(SET_UP, {name: row.set_up for name, row in observed.items()}),
        *_times(FIRST, {name: row.first for name, row in observed.items() if row.set_up}),
        *_times(WARM, {name: row.warm for name, row in observed.items()}, base),
    ]


def copy_figures(name: str, samples: Sequence[Sample]) -> list[Figure]:
    """Return the figure of the copies of a cache."""
    return _times("Copying the PAR's cache", {name: samples})


def cache_figure(par: Par) -> Figure:
    """Return the size of the cache of a PAR that has run."""
    return _bytes("The PAR's cache", par.peer.name, size(par.cache))


def wheels_figure(name: str, wheels: Path) -> Figure:
    """Return the size of the wheels of which a venv is made."""
    return _bytes(SHIPPED, name, size(wheels))


def second_figure(first: Par, name: str, path: Path) -> Figure:
    """Measure the space that the PAR `path` adds to the cache of `first`, which must have run."""
    before = size(first.cache)
    first.import_torch(path)
    return _bytes(SECOND, name, size(first.cache) - before)


def _bytes(case: str, subject: str, number: int) -> Figure:
    return Figure(case=case, subject=subject, number=round(number / 1e6, 1), unit="MB")


def _times(
    case: str, samples: Mapping[str, Sequence[Sample]], base: str | None = None
) -> list[Figure]:
    def median(values: Sequence[float]) -> float:
        return round(statistics.median(values), 3)

    rows = []
    for name, taken in samples.items():
        if not taken:
            continue
        pairs = list(zip(taken, samples[base], strict=True)) if base else []
        rows.append(
            Figure(
                case=case,
                subject=name,
                peer=base,
                runs=len(taken),
                cpu_seconds=median([sample.cpu for sample in taken]),
                cpu_ratio=median([a.cpu / b.cpu for a, b in pairs]) if pairs else None,
                wall_seconds=median([sample.wall for sample in taken]),
                wall_ratio=median([a.wall / b.wall for a, b in pairs]) if pairs else None,
                peak_mib=_peak(taken),
            )
        )
    return rows


def _peak(samples: Sequence[Sample]) -> int | None:
    """Return the median of the peaks of memory in MiB; None if it is not known.

    Linux counts the memory of the parent before `exec` as the child's. So a child's peak is known
    only if it exceeds the peak of this process.
    """
    peak = statistics.median(sample.memory for sample in samples)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return round(peak) if peak > own else None


def _read(path: Path) -> None:
    """Read a file, or all files under a directory, into the page cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as stream:
                while stream.read(_CHUNK):
                    pass
