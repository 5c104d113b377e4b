# SPDX-License-Identifier: Apache-2.0
"""Errors that the server's operator or a client can fix."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus
from typing import Any


class ServingError(Exception):
    """Raised if a server cannot start or continue. The message is one line."""


@dataclasses.dataclass
class RequestError(Exception):
    """An error in a request or its handling, which the server sends as the response.

    `where` names a part of the request, such as `inputs.x`. `next_step` tells the client what to
    do. `retry_after` is the number of seconds to wait before a retry.
    """

    status: HTTPStatus
    what: str
    where: str
    found: str
    next_step: str
    retry_after: int | None = None

    def document(self) -> dict[str, Any]:
        """Return the body of the response, before it is encoded as JSON."""
        return {
            "error": {
                "what": self.what,
                "where": self.where,
                "found": self.found,
                "next": self.next_step,
            }
        }
