# SPDX-License-Identifier: Apache-2.0
"""Origins of upstream trees: wheels, sdists, Debian's sources, git, archives and directories."""

from tools.importer.origins.choice import at_hand, open_pin, resolve, select
from tools.importer.origins.git_mirror import is_repository
from tools.importer.origins.git_origin import GitSnapshot
from tools.importer.origins.origin import OriginSnapshot
from tools.importer.origins.releases import head_of, order_of, releases

__all__ = [
    "GitSnapshot",
    "OriginSnapshot",
    "at_hand",
    "head_of",
    "is_repository",
    "open_pin",
    "order_of",
    "releases",
    "resolve",
    "select",
]
