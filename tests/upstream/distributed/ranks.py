# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that speeds up torch's multi-process tests by forking their ranks.

A test spawns two to eight processes, its ranks, and each would have to import torch and JAX. This
plugin forks the ranks from a server that has imported both. Importing this module prepares the
server: it imports the modules that ranks need, and adapts torch's test framework. It does not
initialize the device's backend, which would not survive a fork.
"""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Generator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from tests.fbcode import outcomes, recording
from tests.upstream.distributed import adaptation, catalogue, comparison, device_use
from tools.presubmit.results import Outcome


def device() -> str:
    """Return the value of UPSTREAM_DEVICE. Raises a ValueError if it is neither tpu nor cpu."""
    name = os.environ.get(catalogue.DEVICE, "tpu")
    if name not in catalogue.DEVICES:
        raise ValueError(
            f"{catalogue.DEVICE}: expected one of {', '.join(catalogue.DEVICES)}, found '{name}'"
        )
    return name


class Rank(ForkServerProcess):
    """One process in a multi-process test. It reports whether it uses the `tpu` device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Store the value of the environment variable in this process. The rank inherits the fork
        # server's environment, in which the value may differ.
        self._file = os.environ[device_use.FILE]

    def run(self) -> None:
        os.environ[device_use.FILE] = self._file
        with device_use.reporting():
            super().run()


def pytest_configure(config: pytest.Config) -> None:
    """Start the fork server, and make torch's tests fork their ranks from it."""
    import torch.multiprocessing as torch_multiprocessing

    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    os.environ[device_use.FILE] = str(Path(folder.name) / "used")
    context = multiprocessing.get_context("forkserver")
    context.Process = Rank  # type: ignore[misc]
    _fork_server(Path(folder.name) / "socket")
    real = torch_multiprocessing.get_context

    def get_context(method: str | None = None) -> Any:
        return context if method in (None, "spawn") else real(method)

    torch_multiprocessing.get_context = get_context
    torch_multiprocessing.Process = context.Process
    torch_multiprocessing.Queue = context.Queue
    torch_multiprocessing.set_start_method = lambda *args, **kwargs: None


def _fork_server(socket_file: Path) -> None:
    """Fork the fork server from this process; multiprocessing would start a new interpreter.

    Set the same fields as `forkserver.ForkServer.ensure_running`.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_file))
        listener.listen()
        alive_for_server, alive = os.pipe()
        process = os.fork()
        if not process:
            status = 1
            try:
                os.close(alive)
                forkserver.main(listener.detach(), alive_for_server, [])  # raises SystemExit
            except SystemExit:
                status = 0
            finally:
                os._exit(status)
        os.close(alive_for_server)
    server: Any = forkserver._forkserver
    server._forkserver_address = str(socket_file)
    server._forkserver_alive_fd = alive
    server._forkserver_pid = process


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """If ONLY_FAILED names a results file, keep only the tests that failed according to it."""
    file = os.environ.get(catalogue.ONLY_FAILED)
    if not file:
        return
    ran = outcomes.read(Path(file))
    failed = {
        comparison.on_the_cpu(key) for key, row in ran.items() if row.outcome is Outcome.FAILED
    }
    config.hook.pytest_deselected(items=[i for i in items if recording.key(i) not in failed])
    items[:] = [item for item in items if recording.key(item) in failed]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record in the test's properties, which `recording` saves, whether the test used tpu."""
    if device() != "tpu":
        return (yield)
    use: list[str] = []
    try:
        with device_use.watch(use):
            return (yield)
    finally:
        item.user_properties += [("device", name) for name in use]


def _prepare() -> None:
    import torch
    from torch.utils import _pallas

    name = device()
    if name == "tpu":
        _import_device()
        # torch's test framework counts devices on import, and counting initializes the backend.
        counts = torch.accelerator.device_count, torch.tpu.device_count
        torch.accelerator.device_count = torch.tpu.device_count = lambda: adaptation.COUNT
    else:
        # The base classes of fully_shard's tests skip tests that need more ranks than devices.
        torch.accelerator.device_count = lambda: adaptation.COUNT
    # torch's test framework checks for Pallas on import, and this check initializes JAX.
    _pallas.has_jax_tpu_backend = lambda: False
    adaptation.adapt_framework(name)
    adaptation.complete_torch()
    if name == "tpu":
        torch.accelerator.device_count, torch.tpu.device_count = counts
    tests = catalogue.root() / "distributed"
    adaptation.install(name, [tests / name for name in catalogue.ADAPTED])


def _import_device() -> None:
    """Import the modules that ranks would otherwise import when they initialize and use tpu."""
    from torch_google.tpu import autoload

    autoload()
    import torch._meta_registrations  # noqa: F401

    from torch_google.tpu import composites
    from torch_google.tpu.cache import loading  # noqa: F401
    from torch_google.tpu.collectives import group  # noqa: F401
    from torch_google.tpu.eager import copy_kernels, fallback, miss, recorded_operators  # noqa: F401
    from torch_google.tpu.fused import fusion  # noqa: F401
    from torch_google.tpu.lowerings import (  # noqa: F401
        collectives,
        meta_kernels,
        recurrent_operators,
    )
    from torch_google.tpu.torch_hooks import (  # noqa: F401
        compile_adapter,
        fake_tensors,
        optimizer_steps,
    )

    composites.register()
    _compile_once()


def _compile_once() -> None:
    """Let only one rank compile a program; other ranks wait, then load it from the cache.

    The ranks of a test run the same programs concurrently, usually on fewer cores than ranks.
    """
    from torch_google.tpu.runtime import compiler

    compiled = compiler.compiled
    locks = Path(os.environ["TORCH_TPU_COMPILE_CACHE"] + ".locks")
    locks.mkdir(parents=True, exist_ok=True)

    def compiled_once(name: str, lower: Any, *, fingerprint: str, on: Any, note: Any = None) -> Any:
        digest = hashlib.sha256(fingerprint.encode()).hexdigest()
        with open(locks / digest[:3], "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stored = compiler.find_entry(fingerprint, on)
            entry = stored and compiler.load_entry(stored)
            if entry is not None and entry.executable is not None:
                return entry.executable
            return compiled(name, lower, fingerprint=fingerprint, on=on, note=note)

    compiler.compiled = compiled_once


_prepare()
