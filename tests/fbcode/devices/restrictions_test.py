# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - like torch's own tests, these use its TestCase
"""Test that tests which torch's decorators exclude are reported as skipped, with a reason.

The skips in this suite appear in every report. `_EXPECTED` lists them.
"""

from __future__ import annotations

import unittest

import pytest
import torch
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    get_device_type_test_bases,
    onlyAccelerator,
    onlyCPU,
    onlyCUDA,
    onlyNativeDeviceTypes,
    onlyOn,
    skipCPUIf,
    skipPRIVATEUSE1If,
)
from torch.testing._internal.common_utils import IS_FBCODE, TestCase

from tests.fbcode.devices import known


class TestRestrictions(TestCase):
    def _runs_on(self, device: str) -> None:
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2.0)

    @onlyCPU
    def test_only_cpu(self, device: str) -> None:
        self._runs_on(device)

    @onlyOn(["tpu"])
    def test_only_tpu(self, device: str) -> None:
        self._runs_on(device)

    @onlyCUDA
    def test_only_cuda(self, device: str) -> None:
        self._runs_on(device)

    @onlyAccelerator
    def test_only_accelerators(self, device: str) -> None:
        self._runs_on(device)

    @onlyNativeDeviceTypes
    def test_native_devices(self, device: str) -> None:
        self._runs_on(device)

    @skipCPUIf(True, "this test excludes the CPU")
    def test_not_on_the_cpu(self, device: str) -> None:
        self._runs_on(device)

    @skipPRIVATEUSE1If(True, "this test excludes the private device")
    def test_not_on_the_private_device(self, device: str) -> None:
        self._runs_on(device)

    @deviceCountAtLeast(99)
    def test_many_devices(self, devices: list[str]) -> None:
        for device in devices:
            self._runs_on(device)


known.instantiate(TestRestrictions, globals())

_ONLY = "Only runs on "
_EXPECTED = {
    "cpu": {
        "test_only_tpu": f"{_ONLY}['tpu']",
        "test_only_cuda": f"{_ONLY}cuda",
        "test_only_accelerators": "onlyAccelerator: doesn't run on CPU or meta devices",
        "test_not_on_the_cpu": "this test excludes the CPU",
        "test_many_devices": "fewer than 99 devices detected",
    },
    "tpu": {
        "test_only_cpu": f"{_ONLY}cpu",
        "test_only_cuda": f"{_ONLY}cuda",
        "test_not_on_the_private_device": "this test excludes the private device",
        "test_many_devices": "fewer than 99 devices detected",
    },
}


def test_the_bases_are_the_cpu_and_the_private_device() -> None:
    assert IS_FBCODE
    names = sorted(base.__name__ for base in get_device_type_test_bases())
    assert names == ["CPUTestBase", "PrivateUse1TestBase"]
    assert torch._C._get_privateuse1_backend_name() == "tpu"


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_what_is_left_out_is_skipped_with_the_reason(device: str) -> None:
    # torch renames the test classes of a private device when it sets up the first such class, which
    # may be in another test file.
    names = {"CPU"} if device == "cpu" else {"PRIVATEUSE1", "TPU"}
    (name,) = {f"TestRestrictions{name}" for name in names} & set(globals())
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(globals()[name]).run(result)
    assert not result.failures + result.errors
    assert result.testsRun == 8
    skipped = {test.id().rpartition(".")[2]: reason for test, reason in result.skipped}
    assert skipped == {f"{test}_{device}": why for test, why in _EXPECTED[device].items()}
