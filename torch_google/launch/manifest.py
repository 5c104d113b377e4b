# SPDX-License-Identifier: Apache-2.0
"""Print a job's Kubernetes manifest for `kubectl apply -f -`.

bazel run //torch_google/launch:manifest -- --name=train --image=ADDRESS --machines=2 -- --epochs=1
"""

from __future__ import annotations

import argparse
import json
import sys

from torch_google.launch.kubernetes import Job, JobError, Tpu, manifest


def main(arguments: list[str]) -> int:
    """Print the manifest as JSON and return 0. If an option is invalid, print why and return 1."""
    options = _parse(arguments)
    try:
        objects = manifest(job(options), jobset=options.jobset)
    except JobError as error:
        print(f"manifest: --{error}", file=sys.stderr)
        return 1
    json.dump(objects, sys.stdout, indent=2)
    print()
    return 0


def job(options: argparse.Namespace) -> Job:
    """Return the job that `options` describe. Raises JobError if an option is invalid."""
    tpu = None
    if options.tpu:
        tpu = Tpu(options.tpu, options.topology, options.chips)
    return Job(
        name=options.name,
        image=options.image,
        arguments=tuple(options.arguments),
        machines=options.machines,
        slices=options.slices,
        processes=options.processes,
        cpu=options.cpu,
        memory=options.memory,
        tpu=tpu,
        env=tuple(_variable(item) for item in options.env),
        queue=options.queue,
        retries=options.retries,
    )


def _variable(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not (name and equals):
        raise JobError(f"env: found {item!r}, expected NAME=VALUE")
    return name, value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add to `parser` the options that describe a job."""
    parser.add_argument("--name", default="", help="name of the job")
    parser.add_argument("--image", default="", help="the address that NAME.push prints")
    parser.add_argument("--machines", type=int, default=1, help="machines per slice")
    parser.add_argument("--processes", type=int, default=1, help="processes per machine")
    parser.add_argument("--slices", type=int, default=1, help="slices; more than one needs JobSet")
    parser.add_argument("--jobset", action="store_true", help="use JobSet even for one slice")
    parser.add_argument("--retries", type=int, default=0, help="retries of the job, by JobSet")
    parser.add_argument("--cpu", default="1", help="CPUs per machine")
    parser.add_argument("--memory", default="4Gi", help="memory per machine")
    parser.add_argument("--tpu", default="", help="GKE's accelerator, such as tpu-v5p-slice")
    parser.add_argument("--topology", default="", help="topology of a slice, such as 2x2x4")
    parser.add_argument("--chips", type=int, default=4, help="TPU chips per machine")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--queue", default="", help="queue of Kueue")
    parser.add_argument("arguments", nargs="*", help="arguments of the program, after --")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="manifest", description=__doc__.partition("\n")[0])
    add_options(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
