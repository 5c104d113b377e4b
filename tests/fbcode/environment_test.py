# SPDX-License-Identifier: Apache-2.0
"""Test the environment that every par_test has by default, packed or not."""

from __future__ import annotations

import os

from torch.testing._internal import common_device_type, common_utils


def test_as_in_a_monorepo() -> None:
    assert os.environ["PYTORCH_TEST_FBCODE"] == "1", "run by bazel test: see .bazelrc"
    assert common_utils.IS_FBCODE
    assert not common_utils.IS_SANDCASTLE


def test_tests_may_be_of_another_file_than_the_one_that_runs() -> None:
    assert common_utils.DISABLE_RUNNING_SCRIPT_CHK


def test_the_device_is_there_where_torch_is_imported() -> None:
    """Importing torch must register the device, through its entry point."""
    names = {base.__name__ for base in common_device_type.get_device_type_test_bases()}
    assert names == {"CPUTestBase", "PrivateUse1TestBase"}
