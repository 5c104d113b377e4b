# SPDX-License-Identifier: Apache-2.0
"""A server's OpenAPI document, and an API documentation page without external resources."""

from __future__ import annotations

import html
import json
from typing import Any

from torch_google.serving.limits import Limits
from torch_google.serving.signature import Signature

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("what", "where", "found", "next")},
        }
    },
}
_STATUSES = {
    "400": "The body is not JSON.",
    "408": "The body did not arrive in time.",
    "413": "The body is too large.",
    "415": "The content type is not application/json.",
    "422": "The inputs do not fit the model.",
    "500": "The model failed.",
    "503": "The queue is full, or no worker is ready. Retry-After has the seconds to wait.",
    "504": "The request took too long.",
}


def openapi(base: dict[str, Any], path: str, signature: Signature | None) -> dict[str, Any]:
    """Add the model's schemas to FastAPI's OpenAPI document `base`, and return it."""
    operation: dict[str, Any] = base["paths"][path]["post"]
    operation["summary"] = "Run the model on one example"
    request: dict[str, Any] = {"schema": {"type": "object"}}
    response: dict[str, Any] = {"schema": {}}
    if signature is not None:
        request = {"schema": signature.request_schema(), "example": signature.example()}
        response = {"schema": signature.response_schema()}
    operation["requestBody"] = {"required": True, "content": {"application/json": request}}
    operation["responses"] = {
        "200": {"description": "The outputs", "content": {"application/json": response}}
    } | {
        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for status, text in _STATUSES.items()
    }
    return base


def page(title: str, path: str, signature: Signature | None, limits: Limits) -> str:
    """Return an HTML page that documents the server's API."""
    inputs = signature.inputs if signature else ()
    example = json.dumps(signature.example() if signature else {})
    command = (
        f"curl -H 'Content-Type: application/json' http://HOST:PORT{path} -d '{_short(example)}'"
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>
<style>
body {{ font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em }}
pre, code {{ background: #f3f3f3 }} pre {{ padding: .6em; white-space: pre-wrap }}
td, th {{ text-align: left; padding: .2em 1.2em .2em 0; vertical-align: top }}
</style>
<h1>{html.escape(title)}</h1>
<p>The machine-readable document is <a href="openapi.json">openapi.json</a>.</p>
<h2>POST {html.escape(path)}</h2>
<p>Runs the model on one example. The server makes batches of up to {limits.batch}.</p>
<pre>{html.escape(command)}</pre>
<table><tr><th>input<th>one example
{_rows((spec.name, str(spec)) for spec in inputs)}</table>
<p>A body has at most {limits.body_bytes:,} bytes. Outputs:
{html.escape(", ".join(signature.outputs) if signature else "as the API defines")}.</p>
<h2>Errors</h2>
<p>The body of an error has <code>what</code>, <code>where</code>, <code>found</code> and
<code>next</code>.</p>
<table>{_rows(_STATUSES.items())}</table>
<h2>Other paths</h2>
<table>{_rows(_PATHS.items())}</table>
</html>
"""


_PATHS = {
    "GET /health": "200 if a worker is ready, else 503; 503 after SIGTERM",
    "GET /metrics": "metrics for Prometheus",
    "GET /info": "the server's settings",
}


def _rows(rows: Any) -> str:
    return "\n".join(
        f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(text)}" for name, text in rows
    )


def _short(text: str, limit: int = 600) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
