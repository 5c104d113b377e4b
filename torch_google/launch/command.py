# SPDX-License-Identifier: Apache-2.0
"""Start torchrun with options taken from the scheduler's environment variables.

PAR_MAIN=torch_google.launch ./train.par [TORCHRUN'S OPTIONS --] [ARGUMENTS OF train.par]
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Mapping, MutableMapping

from torch_google.launch import environments

# Variables that make a PAR (a one-file program) run something other than its main module. Workers
# must not inherit these, but they do inherit variables that only configure the PAR, such as
# PAR_CACHE_DIR.
_DOORS = (
    "PAR_HELP",
    "PAR_INFO",
    "PAR_INTERPRETER",
    "PAR_LIST",
    "PAR_MAIN",
    "PAR_TRACE_IMPORTS",
)
# PAR_MAIN makes a PAR run torchrun. With --tee=3, the other variable makes torchrun prefix each
# line of output with the rank.
LAUNCH_VARIABLES = {
    "PAR_MAIN": "torch_google.launch",
    "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[${rank}] ",
}


def torchrun_arguments(program: str, arguments: list[str], env: Mapping[str, str]) -> list[str]:
    """Return torchrun's arguments for running the PAR `program` on this machine.

    Options before a `--` in `arguments` override those from the environment, because torchrun gets
    them last.
    """
    options, arguments = _split(arguments)
    place = environments.place(env)
    from_environment = (
        []
        if place is None
        else place.torchrun_arguments(elastic=_is_elastic(options), restarts=_restarts(options))
    )
    return [*from_environment, *options, "--no-python", program, *arguments]


def prepare_restarts(arguments: list[str], env: MutableMapping[str, str]) -> None:
    """Set TORCH_DISABLE_SHARE_RDZV_TCP_STORE in `env` if torchrun may restart the processes.

    By default, torchrun shares one key-value store between all attempts. Restarted processes may
    read addresses of the previous attempt from it, and cannot connect (pytorch issue 135712). If
    the variable is set, each attempt has its own store.
    """
    options, _ = _split(arguments)
    if _is_elastic(options) or _restarts(options) or env.get("PET_MAX_RESTARTS", "0") != "0":
        env.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the options for torchrun, which are before a `--`, and the program's arguments."""
    if "--" not in arguments:
        return [], arguments
    split = arguments.index("--")
    return arguments[:split], arguments[split + 1 :]


def _is_elastic(options: list[str]) -> bool:
    return any(re.match(r"--nnodes[= ]\d+:\d+$", option) for option in _joined(options))


def _restarts(options: list[str]) -> bool:
    pattern = r"--max[-_]restarts[= ]0*[1-9]\d*$"
    return any(re.match(pattern, option) for option in _joined(options))


def _joined(options: list[str]) -> list[str]:
    """Return the options, followed by each pair of adjacent options, joined by a space.

    The pairs are needed because an option's value may be a separate argument: `--nnodes 1:4`.
    """
    return [*options, *(f"{first} {second}" for first, second in itertools.pairwise(options))]


def main() -> None:
    """Run torchrun in this process.

    If the scheduler's variables are invalid, exit with a one-line error. After signal N, exit with
    status 128 + N once torchrun has stopped the workers.
    """
    program, *arguments = sys.argv
    if "_par" not in sys.builtin_module_names:
        raise SystemExit(f"{program}: not a PAR; build NAME.par and start that")
    try:
        argv = torchrun_arguments(program, arguments, os.environ)
    except environments.PlaceError as error:
        raise SystemExit(f"{program}: {error}") from None
    for door in _DOORS:
        os.environ.pop(door, None)
    prepare_restarts(arguments, os.environ)
    # Import torch only here: the `submitter` PAR includes this module but not torch.
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException

    try:
        run.main(argv)
    except SignalException as error:
        print(f"{program}: {error.sigval.name}: all processes have ended", file=sys.stderr)
        raise SystemExit(128 + error.sigval) from None
