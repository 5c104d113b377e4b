# SPDX-License-Identifier: Apache-2.0
"""Send requests over several connections, and measure their latencies."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """The latency of each request and the duration of the whole run, in seconds."""

    latencies: list[float]
    seconds: float

    def percentile(self, percent: float) -> float:
        """Return a percentile of the latencies."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

    @property
    def seconds_per_request(self) -> float:
        return self.seconds / len(self.latencies)


def run(
    port: int,
    body: bytes,
    *,
    connections: int,
    seconds: float,
    check: Callable[[bytes], None],
    on_second: Callable[[float], None] = lambda elapsed: None,
) -> Load:
    """Send requests for `seconds` seconds, one at a time on each connection.

    Call `check` with the content of each response. Raises RuntimeError if a status is not 200.
    """
    start = time.perf_counter()
    latencies: list[list[float]] = [[] for _ in range(connections)]
    errors: list[BaseException] = []

    def send(index: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            while time.perf_counter() - start < seconds and not errors:
                before = time.perf_counter()
                connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content = response.read()
                latencies[index].append(time.perf_counter() - before)
                if response.status != 200:
                    raise RuntimeError(f"status {response.status}: {content[:500]!r}")
                check(content)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        on_second(time.perf_counter() - start)
        time.sleep(min(1.0, seconds / 4))
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(f"a request failed: {errors[0]}") from errors[0]
    return Load(list(itertools.chain(*latencies)), time.perf_counter() - start)
