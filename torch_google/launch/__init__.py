# SPDX-License-Identifier: Apache-2.0
"""Start a PAR's processes with torchrun, as the scheduler's environment variables specify.

A PAR is a one-file program. See README.md.
"""

from torch_google.launch.command import main, torchrun_arguments
from torch_google.launch.environments import Place, PlaceError, place

__all__ = ["Place", "PlaceError", "main", "place", "torchrun_arguments"]
