# SPDX-License-Identifier: Apache-2.0
"""Start a storage server behind the fault proxy, and run cloud_checkpoint against it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cloud.fault_proxy import FaultProxy

BUCKET = "checkpoints"
SCHEMES = ("s3", "gs")

_SERVERS = {"s3": "tests.cloud.s3_server", "gs": "tests.cloud.gcs_server"}
_PAR = Path("examples/cloud_checkpoint.par")


@dataclass(frozen=True)
class Store:
    """A bucket on a server. With `environment`, clients for `scheme` connect through `proxy`."""

    scheme: str
    proxy: FaultProxy
    environment: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """Return the URL of `name` in the bucket."""
        return f"{self.scheme}://{BUCKET}/{name}"

    def start(self, checkpoint: str, *flags: str) -> subprocess.Popen[str]:
        """Start cloud_checkpoint with its checkpoint at `checkpoint` in the bucket."""
        return subprocess.Popen(
            [*_command(), f"--checkpoint={self.path(checkpoint)}", *flags],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, checkpoint: str, *flags: str) -> tuple[str, str]:
        """Run cloud_checkpoint to completion, and return the two lines that it prints."""
        with self.start(checkpoint, *flags) as process:
            try:
                out, error = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0, error
        loaded, trained = out.splitlines()
        return loaded, trained


@contextmanager
def serve(scheme: str) -> Iterator[Store]:
    """Run the server for `scheme`, with an empty bucket, until the context exits."""
    with subprocess.Popen(
        [sys.executable, "-m", _SERVERS[scheme]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        proxy = None
        try:
            assert server.stdout
            line = next((line for line in server.stdout if line.strip().isdigit()), "")
            assert line, f"{_SERVERS[scheme]} ended before it printed its port"
            proxy = FaultProxy(("127.0.0.1", int(line)))
            yield Store(scheme, proxy, _environment(scheme, proxy.url))
        finally:
            if proxy:
                proxy.close()
            server.kill()


def _environment(scheme: str, url: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    if scheme == "s3":
        return {
            **inherited,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": url,
        }
    return {
        **inherited,
        "STORAGE_EMULATOR_HOST": url,
        "FSSPEC_GS_TOKEN": "anon",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


def _command() -> list[str]:
    if "TEST_SRCDIR" not in os.environ:  # Without Bazel, run the program from the sources.
        return [sys.executable, "-m", "examples.cloud_checkpoint"]
    root = Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return [str((root / _PAR).resolve(strict=True))]
