# SPDX-License-Identifier: Apache-2.0
"""Start a real Slurm cluster on this machine, with each node on a loopback address of its own.

This needs root and Debian's slurm-wlm. Nodes are named by their addresses, so that the processes of
a job can connect to each other without a name server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
# Debian installs servers in directories that are not on every user's PATH.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_GRACE = 20  # seconds that a preempted job has between SIGTERM and SIGKILL

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdTimeout=10
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime={grace}
PartitionName=urgent Nodes=ALL State=UP PriorityTier=2 PreemptMode=OFF
"""
_NODE = "NodeName={name} NodeAddr={name} NodeHostname={host} Port={port} CPUs=2 State=UNKNOWN"


def missing() -> str | None:
    """Return the reason why this machine cannot run a cluster, or None if it can."""
    if os.geteuid() != 0:
        return "only root can start Slurm's servers"
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    return f"{', '.join(absent)}: not found; `apt-get install slurm-wlm`" if absent else None


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A running cluster. environment: variables for srun, sbatch and others."""

    directory: Path
    environment: dict[str, str]
    nodes: dict[str, subprocess.Popen[bytes]]

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands, and return its output."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def wait_for_state(self, job: str, *states: str, seconds: float) -> str:
        """Wait until a job has one of `states`, and return its description."""
        deadline = time.monotonic() + seconds
        while True:
            description = self.run("scontrol", "show", "job", job)
            match = re.search(r"JobState=(\w+)", description)
            if match and match[1] in states:
                return description
            assert time.monotonic() < deadline, description
            time.sleep(0.5)

    def lose(self, name: str) -> None:
        """Kill all processes of a node, as if its machine had vanished."""
        self.nodes[name].kill()
        for pid in self._processes(f"SLURMD_NODENAME={name}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes[name].wait()

    def _processes(self, variable: str) -> list[int]:
        """Return the processes with `variable` in their environment, after their slurmstepd."""
        ours = f"SLURM_CONF={self.environment['SLURM_CONF']}"
        tasks = {pid for pid, variables in _environments() if {ours, variable} <= variables}
        steps = {parent for pid in tasks if _name(parent := _parent(pid)).startswith("slurmstepd")}
        return [*steps, *tasks]  # slurmstepd is first, so that it cannot report its tasks' end

    def _stop(self) -> None:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.run("scancel", "--full", "--user=root")
            deadline = time.monotonic() + 30
            while self.run("squeue", "--noheader") and time.monotonic() < deadline:
                time.sleep(0.5)


@contextlib.contextmanager
def serve(nodes: int) -> Iterator[Cluster]:
    """Start a cluster with `nodes` nodes, and stop it when the block exits."""
    # The directory of a Bazel test is too long for the path of a socket.
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        with _serve(Path(directory), nodes) as cluster:
            yield cluster


@contextlib.contextmanager
def _serve(directory: Path, nodes: int) -> Iterator[Cluster]:
    """Start a cluster. directory: for keys, sockets and logs."""
    started: list[subprocess.Popen[bytes]] = []
    names = [f"127.0.0.{number + 1}" for number in range(nodes)]
    configuration = directory / "slurm.conf"
    environment = dict(os.environ, PATH=_PATH, SLURM_CONF=str(configuration))

    def start(log: str, *command: str) -> subprocess.Popen[bytes]:
        with (directory / f"{log}.log").open("wb") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        started.append(process)
        return process

    _configure(configuration, names)
    try:
        start("munged", *_munged(directory))
        _wait_for(lambda: (directory / "munge.socket").exists(), directory / "munged.log")
        start("slurmctld", "slurmctld", "-D")
        servers = {name: start(name, "slurmd", "-D", "-N", name) for name in names}
        cluster = Cluster(directory, environment, servers)
        _wait_for(lambda: _idle_nodes(environment) == nodes, directory / "slurmctld.log")
        try:
            yield cluster
        finally:
            cluster._stop()
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            process.wait(60)


def _configure(path: Path, names: list[str]) -> None:
    host = socket.gethostname().partition(".")[0]
    port, *ports = _ports(1 + len(names))
    rows = [
        _NODE.format(name=name, host=host, port=number)
        for name, number in zip(names, ports, strict=True)
    ]
    (path.parent / "state").mkdir()
    path.write_text(
        _CONFIGURATION.format(
            directory=path.parent, grace=_GRACE, host=host, nodes="\n".join(rows), port=port
        )
    )


def _munged(directory: Path) -> list[str]:
    """Return the command of munged, which signs the messages between the servers."""
    key = directory / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    return [
        "munged",
        "--foreground",
        f"--socket={directory}/munge.socket",
        f"--key-file={key}",
        f"--pid-file={directory}/munge.pid",
        f"--seed-file={directory}/munge.seed",
        "--group-update-time=-1",
    ]


def _idle_nodes(environment: dict[str, str]) -> int:
    done = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--partition=main", "--states=idle", "--format=%N"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return len(done.stdout.split())


def _wait_for(ready: object, log: Path) -> None:
    assert callable(ready)
    deadline = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def _ports(number: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _environments() -> Iterator[tuple[int, set[str]]]:
    """Yield the id of each process that can be read, and its environment variables."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), set(path.read_text(errors="replace").split("\0"))


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text()
        return int(status.rpartition(")")[2].split()[1])
    return 0


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""
