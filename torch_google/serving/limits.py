# SPDX-License-Identifier: Apache-2.0
"""A server's limits: batch and body sizes, queue length, and timeouts."""

from __future__ import annotations

import dataclasses

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """A server's limits. Times are in seconds. Raises ValueError if a limit is out of range.

    `queue` limits the number of requests that wait for a worker. If a worker is idle, a request
    waits at most `batch_wait` for its batch to fill up. `timeout` limits the time from the end of a
    request's body to the response. After SIGTERM, the server still accepts connections for
    `drain_delay`, and then has `drain_timeout` to finish all requests. Workers then have half of
    `exit_timeout` to exit. If the server is still running when all of `exit_timeout` has elapsed,
    it exits with status 1.
    """

    batch: int = 8
    batch_wait: float = 0.0
    queue: int = 256
    body_bytes: int = 16 * _MIB
    body_timeout: float = 30.0
    timeout: float = 30.0
    drain_delay: float = 0.0
    drain_timeout: float = 30.0
    exit_timeout: float = 15.0

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "body_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use 1 or more")
        for name in ("body_timeout", "timeout", "drain_timeout", "exit_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use more than 0 s")
        for name in ("batch_wait", "drain_delay"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use 0 s or more")
