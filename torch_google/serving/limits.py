# SPDX-License-Identifier: Apache-2.0
"""The limits of a server: sizes, queue and times."""

from __future__ import annotations

import dataclasses

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server. Times are in seconds. Raises ValueError for a limit out of range.

    `queue` counts requests that wait for a worker. `batch_wait` is the longest time that a request
    waits for others in its batch while a worker is idle. `timeout` is the time from the end of the
    body until the response. After SIGTERM, the server accepts connections for `drain_delay`, and
    then has `drain_timeout` to finish the requests.
    """

    batch: int = 8
    batch_wait: float = 0.0
    queue: int = 256
    body_bytes: int = 16 * _MIB
    body_timeout: float = 30.0
    timeout: float = 30.0
    drain_delay: float = 0.0
    drain_timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("batch", "queue", "body_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use 1 or more")
        for name in ("body_timeout", "timeout", "drain_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use more than 0 s")
        for name in ("batch_wait", "drain_delay"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"Limits: {name}={getattr(self, name)}; use 0 s or more")
