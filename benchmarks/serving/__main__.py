# SPDX-License-Identifier: Apache-2.0
"""Compare torch_google/serving with LitServe's own server; see README.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import results
from benchmarks.serving import client, leaks, processes
from benchmarks.serving.client import Load
from examples import model

_OURS = "serve"
_PEERS = ("LitServe", "LitServe, fast_queue")
# The fraction of a --load run that is warm-up. Memory samples from the warm-up are ignored.
_WARM_UP = 0.2


def main(arguments: Sequence[str]) -> int:
    """Compare the servers or, with --load, send requests only to our server."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.serving", description=__doc__)
    parser.add_argument("--par", type=Path, help="serve.par; the default is the source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each case in each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--load", type=float, help="instead, load serve for so many seconds")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        benchmark = _Benchmark(options, Path(folder) / "checkpoint.pt")
        figures, details = benchmark.load() if options.load else (benchmark.compare(), {})
    if options.json:
        results.write(options.json, "serving", figures, details=details)
    return 0


class _Benchmark:
    def __init__(self, options: argparse.Namespace, checkpoint: Path) -> None:
        self._options = options
        self._checkpoint = str(checkpoint)
        torch.manual_seed(0)
        network = model.DigitNet().eval()
        image = torch.rand(1, 8, 8)
        torch.save({"state_dict": network.state_dict()}, checkpoint)
        self._body = json.dumps({"inputs": {"image": image.tolist()}}).encode()
        self._expected: list[float] = network(image[None])[0].tolist()

    def compare(self) -> list[results.Figure]:
        """Measure all servers once per round, in an order that alternates between rounds."""
        cases = (1, self._options.connections)
        subjects = (_OURS, *_PEERS)
        loads: dict[tuple[int, str], list[tuple[Load, float]]] = {
            (connections, subject): [] for connections in cases for subject in subjects
        }
        for turn in range(self._options.rounds):
            for subject in subjects if turn % 2 == 0 else reversed(subjects):
                port = processes.free_port()
                with processes.running(self._command(subject, port), port) as session:
                    self._run(port, self._options.connections, 1.0)
                    for connections in cases:
                        before = processes.cpu_seconds(session)
                        load = self._run(port, connections, self._options.seconds)
                        cpu = processes.cpu_seconds(session) - before
                        loads[connections, subject].append((load, cpu / len(load.latencies)))
                        print(
                            f"round {turn + 1}, {subject}, {connections} connections: {len(load.latencies)} requests, "
                            f"p50 {1000 * load.percentile(50):.2f} ms, "
                            f"p99 {1000 * load.percentile(99):.2f} ms, "
                            f"CPU {1000 * cpu / len(load.latencies):.2f} ms per request",
                            flush=True,
                        )
        figures = []
        for connections in cases:
            case = "1 connection" if connections == 1 else f"{connections} connections"
            for peer in _PEERS:
                our_loads, peer_loads = loads[connections, _OURS], loads[connections, peer]
                figures += _compare(case, peer, our_loads, peer_loads)
        return figures

    def load(self) -> tuple[list[results.Figure], dict[str, Any]]:
        """Send requests to our server for --load seconds, and record its resource usage."""
        samples: list[leaks.Moment] = []
        port = processes.free_port()
        with processes.running(self._command(_OURS, port), port) as session:
            before = processes.cpu_seconds(session)
            load = self._run(
                port,
                self._options.connections,
                self._options.load,
                lambda elapsed: samples.append((elapsed, processes.sample(session))),
            )
            cpu = (processes.cpu_seconds(session) - before) / len(load.latencies)
        seconds, connections = self._options.load, self._options.connections
        note = (
            f"{len(load.latencies):,} requests, {connections} connections, p50 "
            f"{1000 * load.percentile(50):.1f} ms, p99 {1000 * load.percentile(99):.1f} ms, CPU "
            f"{1000 * cpu:.2f} ms per request"
        )
        print(note)
        warm = [moment for moment in samples if moment[0] >= _WARM_UP * seconds]
        figures = leaks.figures(warm, f"{seconds:.0f} s of load", _OURS, note)
        return figures, {"load": leaks.details(samples)}

    def _run(
        self,
        port: int,
        connections: int,
        seconds: float,
        on_second: Callable[[float], None] = lambda elapsed: None,
    ) -> Load:
        return client.run(
            port,
            self._body,
            connections=connections,
            seconds=seconds,
            check=self._check,
            on_second=on_second,
        )

    def _check(self, content: bytes) -> None:
        actual = json.loads(content)["outputs"]["output"]
        worst = max(abs(a - b) for a, b in zip(actual, self._expected, strict=True))
        if worst > 1e-4:
            raise RuntimeError(f"a result is off by {worst}")

    def _command(self, subject: str, port: int) -> list[str]:
        batch = str(self._options.batch)
        if subject != _OURS:
            transport = "zmq" if "fast_queue" in subject else "queue"
            module = [sys.executable, "-m", "benchmarks.serving.plain_server"]
            return [*module, self._checkpoint, str(port), batch, transport]
        par = self._options.par
        program = [str(par.resolve())] if par else [sys.executable, "-m", "examples.serve"]
        return [*program, f"--checkpoint={self._checkpoint}", f"--port={port}", f"--batch={batch}"]


def _compare(
    case: str, peer: str, our_loads: list[tuple[Load, float]], peer_loads: list[tuple[Load, float]]
) -> list[results.Figure]:
    """Return figures for the wall and CPU time per request, and for two latency percentiles."""

    def figure(name: str, seconds: Callable[[Load], float]) -> results.Figure:
        return results.Figure(
            case=f"{case}: {name}",
            subject=_OURS,
            peer=peer,
            runs=len(our_loads),
            wall_seconds=statistics.median(seconds(load) for load, _ in our_loads),
            wall_ratio=statistics.median(seconds(a) / seconds(b) for (a, _), (b, _) in pairs),
        )

    pairs = list(zip(our_loads, peer_loads, strict=True))
    total = dataclasses.replace(
        figure("time per request", lambda load: load.seconds_per_request),
        cpu_seconds=statistics.median(cpu for _, cpu in our_loads),
        cpu_ratio=statistics.median(a / b for (_, a), (_, b) in pairs),
        number=round(statistics.median(1 / load.seconds_per_request for load, _ in our_loads), 1),
        unit="requests per s",
    )
    print(f"{case}: {total.wall_ratio:.2f} of the time of {peer}, {total.cpu_ratio:.2f} of CPU")
    median = figure("50th percentile of latency", lambda load: load.percentile(50))
    tail = figure("99th percentile of latency", lambda load: load.percentile(99))
    return [total, median, tail]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
