# SPDX-License-Identifier: Apache-2.0
"""Submit a program as a job; show the logs of all ranks; end with the job's status.

bazel run //PACKAGE:NAME.submit -- --scheduler=local --processes=2 -- ARGUMENTS OF THE PROGRAM
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_google.launch.submit import local, slurm
from torch_google.launch.submit.scheduler import Job, SubmitError

_SCHEDULERS = ("local", "slurm")


def main(arguments: list[str]) -> int:
    """Return the job's status, 1 for a wrong option, or 3 if no job can be submitted here."""
    options = _parse(arguments)
    try:
        job = Job(
            options.par.absolute(), tuple(options.arguments), options.machines, options.processes
        )
        if options.scheduler == "slurm":
            return slurm.run(job, options.option)
        if options.option:
            raise ValueError(f"--option={options.option[0]}: only --scheduler=slurm takes options")
        return local.run(job)
    except ValueError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 1
    except SubmitError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 3


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="submit", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--par", type=Path, required=True, help="path of the program where the job runs"
    )
    parser.add_argument("--scheduler", choices=_SCHEDULERS, default="local")
    parser.add_argument("--machines", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="per machine")
    parser.add_argument(
        "--option", action="append", default=[], help="of srun, such as --option=--partition=main"
    )
    parser.add_argument("arguments", nargs="*", help="of the program, after --")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
