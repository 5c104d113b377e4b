# SPDX-License-Identifier: Apache-2.0
"""Compare the importer's engine with `git am -3` and quilt; see README.md."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks import results
from benchmarks.importer.made_upstream import make_long_file, make_upstream
from benchmarks.importer.peers import Contender, Workshop, status
from benchmarks.importer.wheel_upstream import read_upstream
from benchmarks.par_startup import measure, report

_LONG_FILE_PATCHES = 40


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    files, patches = options.files, options.patches
    shop = Workshop(
        options.work, lambda: make_upstream(files=files, patches=patches), files, patches
    )
    long_file = Workshop(
        options.work / "long_file",
        lambda: make_long_file(lines=options.lines, patches=_LONG_FILE_PATCHES),
        options.lines,
        _LONG_FILE_PATCHES,
    )
    real = _of_wheels(options) if options.wheels else None
    try:
        if options.build_only:
            for each in (shop, long_file, real):
                if each is not None:
                    each.build()
            return 0
        # Build in a separate process, because a measured child's peak memory includes the memory of
        # this process at the time of the fork.
        subprocess.run(
            [sys.executable, "-m", "benchmarks.importer", "--build-only", *arguments], check=True
        )
        carrying = [shop.engine("carry", "v2"), shop.git_am(), shop.quilt()]
        samples, _ = _interleaved(shop, carrying, options.rounds)
        carry = _printed("The series on the next release", samples, "git am -3")
        long = _carried(
            f"{_LONG_FILE_PATCHES} patches of one file of {options.lines:,} lines",
            long_file,
            options.rounds,
        )
        if real is not None:
            carry += _carried(f"{patches} patches on a real project", real, options.rounds)
        reading = [
            shop.engine("read", "v1"),
            shop.engine("verify", "v1"),
            shop.engine("drift", "v2", "v3"),
        ]
        samples, figures = _interleaved(shop, reading, options.rounds)
        verify = _printed("The tree read, verified; two releases compared", samples, "read")
        started = _status(options.rounds) if options.status else []
    except (measure.StartError, subprocess.CalledProcessError, OSError) as error:
        print(f"importer: {error}", file=sys.stderr)
        return 1
    drift = {
        key: statistics.median(item[key] for item in figures["drift"]) for key in ("cpu", "wall")
    }
    print(f"Drift of one more tag: {drift['cpu']:.2f} s CPU, {drift['wall']:.2f} s wall")
    one_more = results.Figure(
        case="Comparing one more release (drift)",
        subject="the engine",
        runs=options.rounds,
        cpu_seconds=drift["cpu"],
        wall_seconds=drift["wall"],
    )
    all_figures = [*carry, *long, *verify, one_more, *started]
    results.write(options.work / "figures.json", "importer", all_figures)
    return 0


def _of_wheels(options: argparse.Namespace) -> Workshop:
    old, new = options.wheels
    return Workshop(
        options.work / "wheels",
        lambda: read_upstream((old, new), options.series, patches=options.patches),
        old.name,
        new.name,
        options.patches,
    )


def _carried(title: str, shop: Workshop, rounds: int) -> list[results.Figure]:
    """Compare the engine with `git am -3`, but not with quilt."""
    samples, _ = _interleaved(shop, [shop.engine("carry", "v2"), shop.git_am()], rounds)
    return _printed(title, samples, "git am -3")


def _status(rounds: int) -> list[results.Figure]:
    """Measure `tools/import.py status` in this workspace, with no import in progress."""
    peer = status()
    samples = [measure.start(peer) for _ in range(rounds + 1)][1:]
    wall = statistics.median(sample.wall for sample in samples)
    cpu = statistics.median(sample.cpu for sample in samples)
    print(f"`{peer.name}`, warm: {cpu:.2f} s CPU, {wall:.2f} s wall")
    case = "Starting a command, nothing changed"
    return [
        results.Figure(
            case=case, subject=peer.name, runs=rounds, cpu_seconds=cpu, wall_seconds=wall
        )
    ]


def _interleaved(
    shop: Workshop, contenders: Sequence[Contender], rounds: int
) -> tuple[dict[str, list[measure.Sample]], dict[str, list[Mapping[str, float]]]]:
    """Run each contender once per round, in rotated order, after a warm-up round.

    Return the samples of each contender, and the numbers that the `drift` runs wrote.
    """
    samples: dict[str, list[measure.Sample]] = {item.peer.name: [] for item in contenders}
    figures: dict[str, list[Mapping[str, float]]] = {item.peer.name: [] for item in contenders}
    for number in range(-1, rounds):
        first = number % len(contenders)
        for item in (*contenders[first:], *contenders[:first]):
            item.reset()
            sample = measure.start(item.peer)
            if number < 0:
                continue
            samples[item.peer.name].append(sample)
            if item.peer.name == "drift":
                figures[item.peer.name].append(shop.figures("drift"))
    return samples, figures


def _printed(
    title: str, samples: Mapping[str, Sequence[measure.Sample]], base: str
) -> list[results.Figure]:
    table = measure.summarize(samples, base=base)
    print("\n" + report.markdown(title, table, base=base), flush=True)
    return report.figures(title, table, base=base)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.importer", description=__doc__)
    parser.add_argument(
        "--work", type=pathlib.Path, required=True, help="directory for the trees (about 800 MB)"
    )
    parser.add_argument("--files", type=int, default=15_000, help="of the made upstream")
    parser.add_argument("--patches", type=int, default=50)
    parser.add_argument("--lines", type=int, default=50_000, help="length of the long file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--wheels",
        type=pathlib.Path,
        nargs=2,
        metavar=("OLD", "NEW"),
        help="also measure real trees: two wheels of a project with a series",
    )
    parser.add_argument(
        "--series", type=pathlib.Path, help="the series of OLD, as patches/torch/v2.13.0"
    )
    parser.add_argument(
        "--status", action="store_true", help="also measure `tools/import.py status`, with Bazel"
    )
    parser.add_argument("--build-only", action="store_true", help="only create the trees")
    options = parser.parse_args(arguments)
    if options.wheels and not options.series:
        parser.error("--wheels needs --series, the patches of the old wheel")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
