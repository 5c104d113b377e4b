# SPDX-License-Identifier: Apache-2.0
"""In a monorepo, upstream's device-specific tests work for a private device (PrivateUse1).

A test that does not apply to a device is reported as skipped. Each case runs in a separate process,
because a process can rename the private device only once, and upstream's test module lists the
devices when it is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys

_PROGRAM = """
import types, unittest
import torch

torch.utils.rename_privateuse1_backend("own")
torch._register_device_module("own", types.SimpleNamespace(
    is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0))

from torch.testing._internal import common_device_type as cdt
from torch.testing._internal.common_utils import IS_FBCODE, TestCase

assert IS_FBCODE == {fbcode}, "PYTORCH_TEST_FBCODE did not arrive"
print(sorted(base.__name__ for base in cdt.get_device_type_test_bases()))

class TestRestrictions(TestCase):
    @cdt.onlyOn("tape")
    def test_only_on(self, device):
        raise AssertionError("ran on a device that it was not for")

    @cdt.deviceCountAtLeast(99)
    def test_count(self, devices):
        raise AssertionError("ran with too few devices")

cdt.instantiate_device_type_tests(TestRestrictions, globals(), only_for="cpu")
result = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(TestRestrictionsCPU).run(result)
print(result.testsRun, len(result.failures + result.errors))
print(sorted(reason for _, reason in result.skipped))
"""


def _report(*, fbcode: bool) -> list[str]:
    environment = {**os.environ, "PYTORCH_TEST_FBCODE": "1" if fbcode else "0"}
    for name in ("TORCH_TEST_DEVICES", "SANDCASTLE", "TW_JOB_USER"):
        environment.pop(name, None)
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(fbcode=fbcode)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_private_device_is_a_test_base() -> None:
    bases = "['CPUTestBase', 'PrivateUse1TestBase']"
    assert _report(fbcode=True)[0] == bases
    assert _report(fbcode=False)[0] == bases


def test_device_restrictions_are_skips() -> None:
    _, counts, reasons = _report(fbcode=True)
    assert counts == "2 0"
    assert reasons == "['Only runs on tape', 'fewer than 99 devices detected']"
