# SPDX-License-Identifier: Apache-2.0
"""The source of a model: a file, or a function that returns a module.

This module does not import torch.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import PurePosixPath

from torch_google.serving.errors import ServingError

EXPORTED = ".pt2"
STABLEHLO = (".mlir", ".stablehlo")
_FUNCTION = re.compile(r"[\w.]+:\w+")


@dataclasses.dataclass(frozen=True)
class Source:
    """A model, and possibly a checkpoint with its weights. Paths may have any of gfile's schemes.

    `model` is the path of a torch.export program (.pt2) or of StableHLO text (.mlir), or it is
    `package.module:function`. The function returns a module and a list with a TensorSpec for each
    of the module's arguments. Raises ServingError if `model` is none of these, or if a .pt2 file,
    which contains weights, is given with a checkpoint.
    """

    model: str
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        suffix = PurePosixPath(self.model).suffix
        if suffix == EXPORTED and self.checkpoint:
            raise ServingError(
                f"{self.model} has its own weights, and the checkpoint {self.checkpoint} would be "
                "ignored. Leave one of them out"
            )
        if suffix != EXPORTED and suffix not in STABLEHLO and not self.is_function:
            raise ServingError(
                f"{self.model!r} is no model: use a file *.pt2 (torch.export), a file *.mlir "
                "(StableHLO), or package.module:function"
            )

    @property
    def is_function(self) -> bool:
        return _FUNCTION.fullmatch(self.model) is not None

    @property
    def is_stablehlo(self) -> bool:
        return PurePosixPath(self.model).suffix in STABLEHLO
