# SPDX-License-Identifier: Apache-2.0
"""Run a job on a Ray cluster, as one Ray job per machine, each pinned to a node."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import secrets
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from torch_google.launch.command import LAUNCH_VARIABLES
from torch_google.launch.submit import ray_packages
from torch_google.launch.submit.ray_cluster import Cluster, Node, Unreachable
from torch_google.launch.submit.scheduler import (
    GRACE,
    Cancelled,
    Job,
    Lines,
    SubmitError,
    cancellable,
    say,
)

_POLL = 1.0
_TRIES = 10  # many attempts, because jobs keep running while the cluster's head is replaced
_DRAIN = 30.0  # seconds to wait for logs after the job has ended
_UNKNOWN = 5.0  # seconds after which an interrupted submission can no longer reach the cluster
_SUCCEEDED = "SUCCEEDED"
_ENDED = frozenset((_SUCCEEDED, "FAILED", "STOPPED"))


@dataclasses.dataclass(frozen=True)
class Options:
    """The options shared with `ray job submit`, and whether to upload the program.

    demands: the resources to reserve on each machine, such as {"entrypoint_num_gpus": 4}.
    """

    address: str
    headers: dict[str, str]
    demands: dict[str, float]
    upload: bool = True

    @classmethod
    def parse(cls, options: list[str]) -> Options:
        """Parse the values of --option. Raises ValueError if one is unknown or invalid."""
        parser = _Parser(prog="--option", add_help=False)
        address = os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS")
        parser.add_argument("--address", default=address or "http://127.0.0.1:8265")
        parser.add_argument("--headers", default=os.environ.get("RAY_JOB_HEADERS") or "{}")
        parser.add_argument("--entrypoint-num-cpus", type=float)
        parser.add_argument("--entrypoint-num-gpus", type=float)
        parser.add_argument("--no-upload", action="store_true")
        parsed = parser.parse_args(options)
        if not parsed.address.startswith(("http://", "https://")):
            raise ValueError(
                f"--option=--address={parsed.address}: expected the URL of Ray's dashboard, such "
                "as http://HOST:8265"
            )
        names = ("entrypoint_num_cpus", "entrypoint_num_gpus")
        demands = {
            name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None
        }
        return cls(parsed.address, _headers(parsed.headers), demands, not parsed.no_upload)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"--option: {message}")


def _headers(text: str) -> dict[str, str]:
    try:
        headers = json.loads(text)
    except ValueError:
        headers = None
    if not isinstance(headers, dict):
        # Omit the value from the message, because it may contain a password.
        raise ValueError("--option=--headers or RAY_JOB_HEADERS: expected a JSON object")
    return {str(name): str(value) for name, value in headers.items()}


def run(job: Job, options: Options) -> int:
    """Run a job until it ends.

    Return its status, or 128 plus the number of the signal that cancelled it. Raises
    SubmitError if the cluster cannot run the job.
    """
    cluster = Cluster(options.address, options.headers)
    submitted: list[str] = []
    logs: list[threading.Thread] = []
    try:
        with cancellable():
            version = cluster.check_version()
            nodes = _choose(cluster.nodes(), job.machines, options.demands)
            packages = ray_packages.upload(cluster, job.par, say) if options.upload else None
            name = f"{job.par.stem}-{secrets.token_hex(3)}"
            for description in _descriptions(name, job, nodes, options, packages):
                submitted.append(description["submission_id"])
                cluster.submit(description)
            say(f"submitted {name} to Ray {version}: {job.machines} machines")
            logs.extend(_follow_logs(cluster, submitted))
            status = _follow(cluster, submitted, job.spare)
            _join(logs)
    except Cancelled as cancelled:
        say(f"{signal.Signals(cancelled.signal).name}: cancelling the job")
        _stop(cluster, submitted)
        _join(logs)
        say("cancelled")
        return 128 + cancelled.signal
    except Unreachable as error:
        if submitted:
            raise SubmitError(f"{error} (the job may go on as {', '.join(submitted)})") from None
        raise
    except SubmitError:
        _stop(cluster, submitted)
        raise
    say("succeeded" if status == 0 else f"failed with status {status}")
    return status


def _choose(nodes: list[Node], machines: int, demands: dict[str, float]) -> list[Node]:
    """Choose the nodes for a job.

    Use the head node only if necessary, because it often has fewer resources.
    """
    needed = {
        "CPU": demands.get("entrypoint_num_cpus", 0.0),
        "GPU": demands.get("entrypoint_num_gpus", 0.0),
    }
    fitting = {
        node.address: node
        for node in nodes
        if all(node.resources.get(name, 0.0) >= number for name, number in needed.items())
    }
    if len(fitting) < machines:
        needs = ", ".join(f"{number:g} {name}" for name, number in needed.items() if number)
        raise SubmitError(
            f"the cluster has {len(fitting)} nodes{' with ' * bool(needs)}{needs}, and "
            f"--machines={machines}; start more nodes or use fewer machines"
        )
    ordered = sorted(fitting.values(), key=lambda node: (node.is_head, node.address))
    return ordered[:machines]


def _descriptions(
    name: str,
    job: Job,
    nodes: list[Node],
    options: Options,
    packages: ray_packages.Packages | None,
) -> Iterable[dict[str, Any]]:
    port = 20000 + secrets.randbelow(10000)  # jobs that share a machine must not share a port
    command = job.command(Path("/tmp"))
    if packages is not None:
        command[:1] = packages.command
    for rank, node in enumerate(nodes):
        # When Ray stops a job, it waits only 3 s by default, but torchrun needs longer.
        variables = LAUNCH_VARIABLES | {"RAY_JOB_STOP_WAIT_TIME_S": str(int(GRACE))}
        if len(nodes) > 1:
            # A Ray job does not know about the jobs on the other machines, so set the same
            # variables that launch reads in a Kubernetes Indexed Job.
            variables |= {
                "JOB_COMPLETION_INDEX": str(rank),
                "MASTER_ADDR": nodes[0].address,
                "MASTER_PORT": str(port),
                "PET_NNODES": str(len(nodes)),
            }
        environment: dict[str, Any] = {"env_vars": variables}
        if packages is not None:
            environment |= packages.environment
        yield {
            "submission_id": f"{name}-{rank}",
            "entrypoint": shlex.join(command),
            "entrypoint_resources": {f"node:{node.address}": 0.001},
            "runtime_env": environment,
            **options.demands,
        }


def _follow_logs(cluster: Cluster, names: list[str]) -> Iterable[threading.Thread]:
    lines = Lines(sys.stdout)

    def copy(name: str) -> None:
        try:
            cluster.tail(name, lines.write)
        except SubmitError as error:
            say(f"the log of {name} is incomplete: {error}")

    for name in names:
        thread = threading.Thread(target=copy, args=(name,), daemon=True)
        thread.start()
        yield thread


def _join(threads: list[threading.Thread]) -> None:
    deadline = time.monotonic() + _DRAIN
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))


def _follow(cluster: Cluster, names: list[str], spare: int) -> int:
    """Show a job's progress until it ends. Return 0, or the exit status of the first failure.

    If the job fails on more than `spare` machines, stop it on the others, because they would wait
    for the failed ones.
    """
    shown = ""
    failures: list[int] = []
    running = dict.fromkeys(names, "PENDING")
    while True:
        for name in [name for name, state in running.items() if state not in _ENDED]:
            state = _state(cluster, name)
            running[name] = state["status"]
            if state["status"] in _ENDED - {_SUCCEEDED}:
                failures.append(state.get("driver_exit_code") or 1)
                if len(failures) <= spare + 1:
                    say(f"{name}: {_reason(state)}")
                if len(failures) == spare + 1:
                    for other in names:
                        cluster.stop(other)
        counts = collections.Counter(running.values())
        progress = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
        if progress != shown:
            shown = progress
            say(f"{len(names)} machines: {progress}")
        if counts.keys() <= _ENDED:
            return failures[0] if len(failures) > spare else 0
        time.sleep(_POLL)


def _reason(state: dict[str, Any]) -> str:
    """Return in one line why a job ended, without the log that Ray appends to its message."""
    message = str(state.get("message") or "").partition(", last available logs")[0]
    lines = message.strip().splitlines() or ["no reason is given"]
    return f"{state['status'].lower()}: {lines[0]}"


def _state(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return the state of a job. Retry if the cluster does not respond."""
    for attempt in range(1, _TRIES + 1):
        try:
            state = cluster.job(name)
        except Unreachable:
            if attempt == _TRIES:
                raise
            time.sleep(_POLL)
        else:
            if state is None:
                raise SubmitError(f"the Ray cluster no longer has job {name}")
            return state
    raise AssertionError("unreachable: the last attempt returns or raises")


def _stop(cluster: Cluster, names: list[str]) -> None:
    """Stop jobs, and wait up to 80 s for them to end."""
    start = time.monotonic()
    waiting = list(names)
    while waiting and time.monotonic() - start < 2 * GRACE:
        for name in list(waiting):
            state = cluster.job(name)
            is_unknown = state is None and time.monotonic() - start > _UNKNOWN
            if is_unknown or (state is not None and state["status"] in _ENDED):
                waiting.remove(name)
            elif state is not None:
                cluster.stop(name)
        time.sleep(_POLL if waiting else 0)
    if waiting:
        say(f"not stopped yet: {', '.join(waiting)}")
