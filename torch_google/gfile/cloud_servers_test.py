# SPDX-License-Identifier: Apache-2.0
"""The tests' own servers for S3 and Google Cloud Storage stop when their process exits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torch_google.gfile.testing.cloud_servers import missing

_CODE = """
from torch_google.gfile.testing.cloud_servers import new_bucket
print(new_bucket({scheme!r}))
"""


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_process_with_a_running_server_exits(scheme: str) -> None:
    if missing(scheme):
        pytest.skip(f"not installed: {', '.join(missing(scheme))}")
    # This takes only seconds. Without the timeout, a hang would last an hour.
    process = subprocess.run(
        [sys.executable, "-c", _CODE.format(scheme=scheme)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
    )
    assert process.stdout.startswith(f"{scheme}://")
