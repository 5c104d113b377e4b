# SPDX-License-Identifier: Apache-2.0
"""Start Debian's docker-registry on loopback, protected by a password."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.par.testing.ports import reserved_port

USER, PASSWORD = "tester", "correct"
# The password's bcrypt hash, the only kind that the registry accepts.
_HASH = "$2b$05$abcdefghijklmnopqrstuuSSgfZSwfwKPbBZRnD5O0VgRw2zVgiZC"
_CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {directory}/blobs}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}
"""


@contextlib.contextmanager
def running(directory: Path) -> Iterator[str]:
    """Start a registry that stores its blobs in `directory`, and yield its HOST:PORT."""
    program = shutil.which("docker-registry")
    if program is None:
        return pytest.skip("this machine has no docker-registry: `apt-get install docker-registry`")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        (directory / "htpasswd").write_text(f"{USER}:{_HASH}\n")
        config = directory / "config.yml"
        config.write_text(_CONFIG.format(directory=directory, port=port))
        log = stack.enter_context((directory / "log").open("wb"))
        server = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
        try:
            _wait(f"http://127.0.0.1:{port}/v2/", server, directory / "log")
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=300)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            urllib.request.urlopen(url, timeout=60)
        except urllib.error.HTTPError as error:
            error.close()
            return  # the registry is up and asks for a password
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"docker-registry: {log.read_text()}") from None
            time.sleep(0.05)
