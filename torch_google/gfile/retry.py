# SPDX-License-Identifier: Apache-2.0
"""Retries of transient failures, with exponential backoff and jitter."""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch_google.gfile.failures import is_transient

_T = TypeVar("_T")
_log = logging.getLogger("torch_google.gfile")


@dataclass(frozen=True)
class Retry:
    """A retry policy. Delays are in seconds; `attempts=1` never retries.

    The n-th delay is `first * factor ** n`, but at most `longest`. A random fraction of up to
    `jitter` is subtracted, so that many programs do not retry at the same time.
    """

    attempts: int = 6
    first: float = 0.1
    factor: float = 2.0
    longest: float = 10.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise ValueError(
                f"{self}: attempts are at least 1, delays not negative, the factor at least 1 and "
                "the jitter between 0 and 1; correct the values"
            )

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of an attempt, counted from 0."""
        # Cap the exponent, because larger powers may overflow. Usually the delay has reached
        # `longest` long before that.
        delay = min(self.longest, self.first * self.factor ** min(attempt, 60))
        return delay * (1 - self.jitter * random.random())

    def call(
        self,
        action: Callable[[], _T],
        what: str,
        *,
        reset: Callable[[], None] | None = None,
        settled: Callable[[Exception], _T] | None = None,
    ) -> _T:
        """Return the result of `action`, retrying it while its failures are transient.

        `reset` runs before each retry. If a retry fails permanently, `settled` determines the
        result, because an earlier attempt may have succeeded even though its response was lost.
        """
        handled = sys.exc_info()[1]
        for attempt in range(self.attempts):
            try:
                return action()
            except Exception as error:
                if not is_transient(error, handled=handled):
                    if attempt and settled is not None:
                        return settled(error)
                    raise
                if attempt + 1 == self.attempts:
                    raise
                delay = self.delay(attempt)
                _log.info(
                    "%s: %r; attempt %d of %d, again in %.2f s",
                    *(what, error, attempt + 1, self.attempts, delay),
                )
                time.sleep(delay)
                if reset is not None:
                    reset()
        raise AssertionError("unreachable: the last attempt returns or raises")
