# SPDX-License-Identifier: Apache-2.0
"""A LitServer with a bounded queue, limits, metrics and a graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
import uvicorn.server
from fastapi import Depends, FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from litserve import LitAPI, LitServer
from litserve.server import no_auth
from starlette.requests import ClientDisconnect

from torch_google.serving import metrics, page
from torch_google.serving.deadline import Deadline
from torch_google.serving.dispatcher import Dispatcher
from torch_google.serving.errors import RequestError, ServingError
from torch_google.serving.limits import Limits
from torch_google.serving.signature import parse_json

_LOG = logging.getLogger(__name__)
_CLIENT_CLOSED = 499  # nginx's status for its log; it is never sent to a client
_ANYIO = "AnyIO worker thread"  # FastAPI runs synchronous hooks in threads with this name
_LATE_SECONDS = 0.5  # seconds until a connection without a request is closed
_THREAD_SECONDS = 0.5  # seconds that a thread may need to exit after the last response
_FASTAPI_PAGES = ("/docs", "/docs/oauth2-redirect", "/redoc")


class Server(LitServer):
    """An HTTP server for one LitAPI.

    The HTTP server and the queue run in this process, and each worker runs in its own process. If
    the API has a `signature`, the server checks requests against it and passes arrays to the API.
    Otherwise it passes the parsed JSON of the body. Raises ValueError if the API streams its output
    or has a LitSpec, because the server supports neither.
    """

    def __init__(
        self, api: LitAPI, *, device: str = "cpu", workers: int = 1, limits: Limits | None = None
    ) -> None:
        if api.stream or api.spec is not None:
            raise ValueError("Server: streams and LitSpecs need litserve.LitServer itself")
        if workers < 1:
            raise ValueError(f"Server: workers={workers}; use 1 or more")
        self.limits = limits or Limits(batch=api.max_batch_size)
        if api.max_batch_size != self.limits.batch:
            raise ValueError(
                f"Server: the API's max_batch_size is {api.max_batch_size}, and the limits' batch "
                f"is {self.limits.batch}. Use the same number"
            )
        self.metrics = metrics.Metrics(self.limits.batch)
        self.failure: str | None = None
        self.is_draining = False
        self._drained_at = time.monotonic()
        self._patience = self.limits.exit_timeout / 2
        self._deadline: Deadline | None = None
        self._left: list[threading.Thread] = []
        self._dispatcher = Dispatcher(self.limits, self.metrics, self._fail)
        self._api = api
        self._target = device
        # LitServe does not support the accelerator `tpu`. Pass `cpu`, and set the device below.
        super().__init__(api, accelerator="cpu", timeout=self.limits.timeout)
        self.workers_per_device = workers
        self.devices = [device]
        self._replace_pages()

    def run(self, host: str = "127.0.0.1", port: int = 8000, *, log_level: str = "warning") -> None:
        """Serve until SIGTERM or SIGINT, then finish all requests that have arrived.

        Port 0 selects a free port, whose number is logged. Raises ServingError if the address
        cannot be used, the model cannot be loaded, a worker keeps dying, or requests were lost
        because the shutdown timed out. If this method does not return before the shutdown's
        deadline, or a thread that it started does not exit, the process logs why and exits with
        status 1.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=2048)
        except (OSError, OverflowError) as error:
            raise ServingError(
                f"cannot listen on {host}:{port}: {error}. Use another host or port"
            ) from error
        config = uvicorn.Config(
            self.app,
            log_level=log_level,
            access_log=False,
            timeout_graceful_shutdown=self.limits.drain_timeout,
            server_header=False,
        )
        address = ":".join(map(str, listener.getsockname()[:2]))
        _LOG.info("listening on http://%s; the model is loading", address)
        threads = set(threading.enumerate())
        http = _Http(config, self)
        deadline = self._deadline = Deadline(http.describe)
        try:
            http.run(sockets=[listener])
        finally:
            deadline.start(self.limits.exit_timeout)
            self._dispatcher.abandon()
            listener.close()
            self._left = _left_threads(threads)
            # At exit, the interpreter waits for these threads, so cancel the deadline only if there
            # are none.
            if not self._left:
                deadline.cancel()
        if self.failure is not None:
            raise ServingError(self.failure)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Start the workers when the HTTP server starts; stop them after the last response."""
        self._dispatcher.start(self._api, self._target, int(self.workers_per_device))
        try:
            yield
        finally:
            await self._dispatcher.stop(self._patience)

    def drain(self, delay: float) -> None:
        """Make /health fail, so that load balancers send no more requests to this server.

        Also set the deadline for the shutdown, which begins after `delay` seconds.
        """
        self.is_draining = True
        self.metrics.draining.set(1)
        self._drained_at = time.monotonic() + delay
        self._limit_shutdown(delay)

    def report_lost_requests(self, *, is_forced: bool) -> None:
        """Make `run` raise an error if any request has no response yet.

        If `is_forced`, also give the workers no time to finish their batches.
        """
        if is_forced:
            self._patience = 0.0
        self._dispatcher.update_gauges()
        lost = int(self.metrics.queue_length.get() + self.metrics.in_work.get())
        if lost and self.failure is None:
            seconds = max(0.0, time.monotonic() - self._drained_at)
            self.failure = (
                f"{lost} requests had no response {seconds:.3g} s after the server was told to "
                f"end. {'A second signal ended it' if is_forced else 'Use a longer drain timeout'}"
            )

    def describe(self) -> str:
        """Return a description, for operators, of unfinished requests, workers and threads."""
        threads = [f"thread {each.name!r} runs" for each in self._left]
        return ", ".join([self._dispatcher.describe(), *threads])

    def _fail(self, message: str) -> None:
        self.failure = message
        self._limit_shutdown(0)

    def _limit_shutdown(self, delay: float) -> None:
        if self._deadline is not None:
            limits = self.limits
            self._deadline.start(delay + limits.drain_timeout + limits.exit_timeout)

    def _register_internal_endpoints(self) -> None:
        super()._register_internal_endpoints()
        # Replace LitServe's /health, which queries a process that this server does not start.
        routes = self.app.router.routes
        routes[:] = [each for each in routes if getattr(each, "path", "") != self.healthcheck_path]
        auth = self._auth()

        @self.app.get(self.healthcheck_path, dependencies=auth, response_class=PlainTextResponse)
        async def health() -> Response:
            if self.is_draining:
                return PlainTextResponse("draining", HTTPStatus.SERVICE_UNAVAILABLE)
            if not self._dispatcher.is_ready or not self._api.health():
                return PlainTextResponse("not ready", HTTPStatus.SERVICE_UNAVAILABLE)
            return PlainTextResponse("ok")

        @self.app.get("/metrics", dependencies=auth, response_class=PlainTextResponse)
        async def prometheus() -> Response:
            self._dispatcher.update_gauges()
            return Response(self.metrics.text(), media_type=metrics.CONTENT_TYPE)

    def _register_api_endpoints(
        self, lit_api: LitAPI, request_type: Any, response_type: Any
    ) -> None:
        self.app.add_api_route(
            lit_api.api_path,
            self._respond,
            methods=["POST"],
            dependencies=self._auth(lit_api),
            response_class=JSONResponse,
        )

    def _auth(self, lit_api: LitAPI | None = None) -> list[Any]:
        # Omit no_auth: it is synchronous, so FastAPI would call it in another thread.
        function = self.setup_auth(lit_api)
        return [] if function is no_auth else [Depends(function)]

    def _replace_pages(self) -> None:
        """Replace FastAPI's documentation pages, which load scripts from another site."""
        routes = self.app.router.routes
        routes[:] = [each for each in routes if getattr(each, "path", "") not in _FASTAPI_PAGES]
        path, title = self._api.api_path, type(self._api).__name__
        document = self.app.openapi

        def openapi() -> dict[str, Any]:
            return page.openapi(document(), path, self._dispatcher.signature)

        self.app.title = title
        self.app.openapi = openapi

        @self.app.get("/docs", include_in_schema=False)
        async def docs() -> Response:
            text = page.page(title, path, self._dispatcher.signature, self.limits)
            return HTMLResponse(text)

    async def _respond(self, request: Request) -> Response:
        start = time.perf_counter()
        try:
            response = await self._answer(request)
        except RequestError as error:
            headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
            response = JSONResponse(error.document(), error.status, headers)
        except ClientDisconnect:
            response = Response(status_code=_CLIENT_CLOSED)
        except asyncio.CancelledError:
            # When the drain timeout has elapsed, uvicorn cancels the unfinished requests. Without
            # this response, it would log a traceback for each and send status 500.
            task = asyncio.current_task()
            if task is None or not (self.is_draining or self.failure is not None):
                raise
            task.uncancel()
            response = JSONResponse(_shutdown_error().document(), HTTPStatus.SERVICE_UNAVAILABLE)
        self.metrics.requests.add(1, str(response.status_code))
        self.metrics.request_seconds.observe(time.perf_counter() - start)
        return response

    async def _answer(self, request: Request) -> Response:
        body = await self._read(request)
        signature = self._dispatcher.signature
        payload = parse_json(body) if signature is None else signature.parse(body)
        reply = await self._dispatcher.submit(payload)
        if isinstance(reply.content, bytes):
            return Response(reply.content, reply.status, media_type="application/json")
        return JSONResponse(jsonable_encoder(reply.content), reply.status)

    async def _read(self, request: Request) -> bytes:
        """Return a request's body.

        Raises RequestError if the body is too large, arrives too slowly, or is not declared as
        JSON.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "the content type is unknown",
                "the header Content-Type",
                kind[:80] or "no such header",
                "send application/json",
            )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.limits.body_bytes:
            raise self._too_large(f"{int(length):,} bytes")
        try:
            return await asyncio.wait_for(self._read_parts(request), self.limits.body_timeout)
        except TimeoutError:
            raise RequestError(
                HTTPStatus.REQUEST_TIMEOUT,
                "the body did not arrive in time",
                "the body",
                f"no end after {self.limits.body_timeout:g} s",
                "send the body faster",
            ) from None

    async def _read_parts(self, request: Request) -> bytes:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.limits.body_bytes:
                raise self._too_large(f"more than {self.limits.body_bytes:,} bytes")
        return bytes(body)

    def _too_large(self, found: str) -> RequestError:
        return RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "the body is too large",
            "the body",
            found,
            f"send at most {self.limits.body_bytes:,} bytes",
        )


class _Http(uvicorn.server.Server):
    """uvicorn's server with a two-step shutdown: first /health fails, then the server stops."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._stop_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn's own method records the signal and raises it again after the shutdown. This
        # override does not, so that the program can choose the process's exit status.
        if self._stop_at is not None:
            self.should_exit = self.force_exit = True
            return
        delay = self._server.limits.drain_delay if sig == signal.SIGTERM else 0
        self._stop_at = time.monotonic() + delay
        self._server.drain(delay)

    async def on_tick(self, counter: int) -> bool:
        is_due = self._stop_at is not None and time.monotonic() >= self._stop_at
        if is_due or self._server.failure is not None:
            self.should_exit = True
        return bool(await super().on_tick(counter))

    def describe(self) -> str:
        """Return a description, for operators, of the parts of the server that are still active."""
        connections = len(self.server_state.connections)
        return f"{connections} connections are open, {self._server.describe()}"

    async def _wait_tasks_to_complete(self) -> None:
        closer = asyncio.create_task(self._close_late_connections())
        try:
            await super()._wait_tasks_to_complete()
        finally:
            closer.cancel()
            self._server.report_lost_requests(is_forced=self.force_exit)
            # With force_exit, uvicorn would skip the end of `lifespan`, which stops the workers,
            # and would log a traceback.
            self.force_exit = False

    async def _close_late_connections(self) -> None:
        """Close idle connections, and the others after their current response.

        uvicorn does this only once. It misses a connection that is accepted in the same iteration
        of the event loop, and would wait for that connection until the timeout.
        """
        while True:
            old = set(self.server_state.connections)
            await asyncio.sleep(_LATE_SECONDS)
            for connection in old & self.server_state.connections:
                connection.shutdown()


def _shutdown_error() -> RequestError:
    return RequestError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the server ended before the result was ready",
        "the server",
        "the drain timeout has passed, or a second signal ended the server",
        "send the request again, to another server or when this one has started again",
    )


def _left_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return the threads in which an API hook, such as `authorize`, is still running."""
    new = [each for each in threading.enumerate() if each not in before and each.name == _ANYIO]
    end = time.monotonic() + _THREAD_SECONDS
    for thread in new:
        thread.join(max(0.0, end - time.monotonic()))
    return [each for each in new if each.is_alive()]
