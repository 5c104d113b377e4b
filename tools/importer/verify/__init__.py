# SPDX-License-Identifier: Apache-2.0
"""Proof that a tree is what the pin and the series say, with every path that is not."""

from tools.importer.verify.difference import Difference, Kind, compare
from tools.importer.verify.hashing import WheelContents, hash_tree, hash_wheel
from tools.importer.verify.rebuild import Rebuilt, rebuild
from tools.importer.verify.wheel_record import check_record

__all__ = [
    "Difference",
    "Kind",
    "Rebuilt",
    "WheelContents",
    "check_record",
    "compare",
    "hash_tree",
    "hash_wheel",
    "rebuild",
]
