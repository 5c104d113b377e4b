# SPDX-License-Identifier: Apache-2.0
"""Loopback servers for S3 and Google Cloud Storage, if their packages are installed."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
from collections.abc import Callable

# For each scheme, the packages that provide fsspec's filesystem and a test server.
_PACKAGES = {"s3": ("s3fs", "moto"), "gs": ("gcsfs", "gcp_storage_emulator")}
_numbers = itertools.count()


def missing(scheme: str) -> list[str]:
    """Return the packages that a scheme's tests need but that are not installed."""
    return [name for name in _PACKAGES[scheme] if importlib.util.find_spec(name) is None]


INSTALLED = tuple(scheme for scheme in _PACKAGES if not missing(scheme))


def new_bucket(scheme: str) -> str:
    """Return the URL of a new bucket, on a server that stops when this process exits."""
    import fsspec

    _serve(scheme)
    name = f"bucket{next(_numbers)}"
    fsspec.filesystem(scheme).mkdir(name)
    return f"{scheme}://{name}"


@functools.cache
def _serve(scheme: str) -> None:
    import fsspec

    fsspec.config.conf[scheme] = _SERVERS[scheme]()


def _s3() -> dict[str, object]:
    server = importlib.import_module("moto.server").ThreadedMotoServer(
        "127.0.0.1", 0, verbose=False
    )
    server.start()
    atexit.register(server.stop)
    host, port = server.get_host_and_port()
    return {"endpoint_url": f"http://{host}:{port}", "key": "test", "secret": "test"}


def _gs() -> dict[str, object]:
    # By default, gcsfs queries the bucket's type over gRPC, which the test server lacks.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    emulator = importlib.import_module("gcp_storage_emulator.server")
    server = emulator.create_server("127.0.0.1", 0, in_memory=True)
    # Before atexit functions run, the interpreter waits for all threads that are not daemons.
    server._api.daemon = True
    server.start()
    atexit.register(server.stop)
    port = server._api._httpd.server_port
    return {"endpoint_url": f"http://127.0.0.1:{port}", "token": "anon", "project": "test"}


_SERVERS: dict[str, Callable[[], dict[str, object]]] = {"s3": _s3, "gs": _gs}
