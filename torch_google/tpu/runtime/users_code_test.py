# SPDX-License-Identifier: Apache-2.0
"""User code is distinguished from torch and from this package, even if paths are similar."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest
import torch

from torch_google.tpu.runtime import errors

_SITE = Path(torch.__file__).parents[1]
_OURS = Path(errors.__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (_SITE / "torch" / "nn" / "modules" / "module.py", 0),
        (_OURS / "tpu" / "runtime" / "errors.py", 0),
        (_SITE / "torchvision" / "ops" / "boxes.py", 1),
        (_SITE / "torch_geometric" / "nn" / "conv.py", 1),
        (_OURS.with_name("torch_google_models") / "net.py", 1),
        (_OURS / "tpu" / "some_test.py", 1),
        (Path("/home/me/train.py"), 1),
    ],
)
def test_kinds_of_frames(file: Path, kind: int) -> None:
    code = compile("pass", str(file), "exec")
    assert isinstance(code, CodeType)
    assert errors.frame_kind(code) == kind
