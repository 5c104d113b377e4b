# SPDX-License-Identifier: Apache-2.0
"""Where upstream's trees come from: wheels, Debian's sources, git, archives and directories."""

from tools.importer.origins.choice import open_pin, resolve
from tools.importer.origins.git_origin import GitSnapshot
from tools.importer.origins.origin import OriginSnapshot

__all__ = ["GitSnapshot", "OriginSnapshot", "open_pin", "resolve"]
