# SPDX-License-Identifier: Apache-2.0
"""The entry point of //tools/importer:import. tools/import.py starts it."""

from __future__ import annotations

import sys

from tools.importer.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
