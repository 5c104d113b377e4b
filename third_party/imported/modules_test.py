# SPDX-License-Identifier: Apache-2.0
"""The repository rule runs again if any module that unpack.py imports is edited."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_RULE = Path(__file__).with_name("imported.bzl")
_LABEL = re.compile(r'Label\("//([^:"]+):([^"]+)\.py"\)')
_LOAD = """
import sys
import third_party.imported.unpack
for name, module in sys.modules.items():
    if name.startswith(("third_party.", "tools.importer.")) and not hasattr(module, "__path__"):
        print(name.replace(".", "/"))
"""


def test_the_rule_lists_all_modules() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True, timeout=300
    )
    listed = {"/".join(label) for label in _LABEL.findall(_RULE.read_text())}
    packages = {path for path in listed if path.endswith("/__init__")}
    assert listed - packages == set(ran.stdout.split()), "correct imported.bzl"
