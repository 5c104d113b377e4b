# SPDX-License-Identifier: Apache-2.0
"""Counters, gauges and histograms in Prometheus's text format. They are not thread-safe."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metric:
    """A counter or a gauge: one number per value of `label`, or one number if `label` is None."""

    def __init__(self, name: str, kind: str, text: str, label: str | None = None) -> None:
        self.name = name
        self._head = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        self._label = label
        self._values: dict[str, float] = {} if label else {"": 0.0}

    def add(self, amount: float = 1, label: str = "") -> None:
        self._values[label] = self._values.get(label, 0.0) + amount

    def set(self, value: float, label: str = "") -> None:
        self._values[label] = value

    def get(self, label: str = "") -> float:
        return self._values.get(label, 0.0)

    def lines(self) -> Iterator[str]:
        """Yield the metric in Prometheus's text format."""
        yield self._head
        for label, value in self._values.items():
            labels = f'{{{self._label}="{label}"}}' if self._label else ""
            yield f"{self.name}{labels} {value:.12g}\n"


class Histogram:
    """A cumulative histogram with fixed upper bounds."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self.name = name
        self._head = f"# HELP {name} {text}\n# TYPE {name} histogram\n"
        self._bounds = list(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.sum = 0.0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self.sum += value

    def lines(self) -> Iterator[str]:
        """Yield the histogram in Prometheus's text format."""
        yield self._head
        total = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            total += count
            yield f'{self.name}_bucket{{le="{bound}"}} {total}\n'
        yield f"{self.name}_sum {self.sum:.12g}\n{self.name}_count {total}\n"


class Metrics:
    """The metrics of a server, for batches of up to `batch` requests."""

    def __init__(self, batch: int) -> None:
        sizes = sorted({batch, *(1 << i for i in range(batch.bit_length()) if 1 << i <= batch)})
        self.requests = Metric(
            "serving_requests_total", "counter", "Responses by status.", "status"
        )
        self.request_seconds = Histogram(
            "serving_request_seconds", "Time from a request's head to its response.", SECONDS
        )
        self.queue_seconds = Histogram(
            "serving_queue_seconds", "Time that a request waits for a worker.", SECONDS
        )
        self.batch_seconds = Histogram(
            "serving_batch_seconds", "Time that a worker takes for a batch.", SECONDS
        )
        self.batch_size = Histogram("serving_batch_size", "Requests in a batch.", sizes)
        self.queue_length = Metric(
            "serving_queue_length", "gauge", "Requests that wait for a worker."
        )
        self.queue_limit = Metric("serving_queue_limit", "gauge", "Limit of the queue.")
        self.in_work = Metric("serving_in_work", "gauge", "Requests that workers have.")
        self.ready = Metric("serving_worker_ready", "gauge", "1 if the worker is ready.", "worker")
        self.restarts = Metric(
            "serving_worker_restarts_total", "counter", "Restarts of a worker.", "worker"
        )
        self.resident = Metric(
            "serving_worker_resident_bytes", "gauge", "Resident memory of a worker.", "worker"
        )
        self.draining = Metric("serving_draining", "gauge", "1 after SIGTERM.")

    def text(self) -> str:
        """Return all metrics in Prometheus's text format."""
        return "".join(line for metric in vars(self).values() for line in metric.lines())
