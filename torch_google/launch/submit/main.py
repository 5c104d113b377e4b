# SPDX-License-Identifier: Apache-2.0
"""Submit a program as a job, show the logs of all ranks, and exit with the job's status.

bazel run //PACKAGE:NAME.submit -- --scheduler=local --processes=2 -- ARGUMENTS OF THE PROGRAM
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from torch_google.launch.kubernetes import JobError, manifest
from torch_google.launch.manifest import add_options, job
from torch_google.launch.submit import kubernetes, local, ray, slurm
from torch_google.launch.submit.scheduler import Job, SubmitError


def main(arguments: list[str]) -> int:
    """Run a job and return its status, 1 for an invalid option, or 3 if it cannot be submitted."""
    options = _parse(arguments)
    try:
        return _SCHEDULERS[options.scheduler](options)
    except ValueError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 1
    except SubmitError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 3


def _job(options: argparse.Namespace) -> Job:
    arguments = tuple(options.arguments)
    return Job(
        options.par.absolute(),
        arguments,
        options.machines,
        options.processes,
        options.min_machines,
        options.max_restarts,
    )


def _local(options: argparse.Namespace) -> int:
    if options.option:
        raise ValueError(f"--option={options.option[0]}: --scheduler=local takes no options")
    return local.run(_job(options))


def _slurm(options: argparse.Namespace) -> int:
    return slurm.run(_job(options), options.option)


def _ray(options: argparse.Namespace) -> int:
    return ray.run(_job(options), ray.Options.parse(options.option))


def _kubernetes(options: argparse.Namespace) -> int:
    if options.min_machines is not None or options.max_restarts:
        raise ValueError(
            "--scheduler=kubernetes takes neither --min-machines nor --max-restarts; --retries=N "
            "starts the whole job again"
        )
    if not options.name:
        # Make the name unique, because a finished job of the same program may still exist.
        stem = options.par.stem.lower().replace("_", "-")[:40]
        options.name = f"{stem}-{secrets.token_hex(3)}"
    try:
        objects = manifest(job(options), jobset=options.jobset)
    except JobError as error:
        raise ValueError(f"--{error}") from None
    return kubernetes.run(kubernetes.Submission(objects, tuple(options.option)))


_SCHEDULERS = {"local": _local, "slurm": _slurm, "kubernetes": _kubernetes, "ray": _ray}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="submit", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--par", type=Path, required=True, help="path of the program where the job runs"
    )
    parser.add_argument("--scheduler", choices=tuple(_SCHEDULERS), default="local")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        help="an option of srun, kubectl or `ray job submit`, such as --option=--partition=main, "
        "--option=--namespace=team or --option=--address=http://HOST:8265",
    )
    parser.add_argument(
        "--min-machines",
        type=int,
        help="the job goes on while this many machines are left; not on Kubernetes",
    )
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        help="how often to start the processes again after a failure; on Kubernetes, see --retries",
    )
    add_options(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
