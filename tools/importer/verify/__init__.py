# SPDX-License-Identifier: Apache-2.0
"""Verify that a tree matches its pin and patch series, and list every path that differs."""

from tools.importer.verify.difference import Difference, Kind, compare
from tools.importer.verify.hashing import WheelContents, hash_tree, hash_wheel
from tools.importer.verify.rebuild import Rebuilt, rebuild
from tools.importer.verify.recorded_base import check_base
from tools.importer.verify.vendored import VendoredTree, check_vendored, read_vendored
from tools.importer.verify.wheel_record import check_record

__all__ = [
    "Difference",
    "Kind",
    "Rebuilt",
    "VendoredTree",
    "WheelContents",
    "check_base",
    "check_record",
    "check_vendored",
    "compare",
    "hash_tree",
    "hash_wheel",
    "read_vendored",
    "rebuild",
]
