# SPDX-License-Identifier: Apache-2.0
"""Errors that a client or the operator of a server can correct."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import Any


class ServingError(Exception):
    """The error for a server that cannot start or go on. The message is one line."""


@dataclasses.dataclass
class RequestError(Exception):
    """The error for one request, which becomes the response.

    `where` is a part of the request, such as `inputs.x`. `next_step` says how to correct it.
    `retry_after` is a number of seconds.
    """

    status: HTTPStatus
    what: str
    where: str
    found: str
    next_step: str
    retry_after: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the response."""
        return {
            "error": {
                "what": self.what,
                "where": self.where,
                "found": self.found,
                "next": self.next_step,
            }
        }
