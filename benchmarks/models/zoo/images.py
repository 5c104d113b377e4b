# SPDX-License-Identifier: Apache-2.0
"""Image classifiers from timm and torchvision."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from benchmarks.models.model import Model, Work
from benchmarks.models.zoo import losses

_CLASSES = 100


def _work(library: str, name: str, batch: int, size: int, settings: dict[str, Any]) -> Work:
    if library == "timm":
        import timm

        module = timm.create_model(name, num_classes=_CLASSES, **settings)
    else:
        import torchvision

        module = torchvision.models.get_model(name, num_classes=_CLASSES, **settings)
    images = torch.randn(batch, 3, size, size)
    return Work(module, (images,), torch.randint(0, _CLASSES, (batch,)), losses.classes)


def _image(library: str, name: str, batch: int, size: int, **settings: Any) -> Model:
    return Model(library, name, partial(_work, library, name, batch, size, settings))


# The integer arguments are the number of images per batch, and their height and width.
MODELS = (
    _image("timm", "resnet18", 4, 96),
    _image("timm", "vit_tiny_patch16_224", 2, 224, depth=6),
    _image("timm", "mixer_s16_224", 1, 224),
    _image("timm", "convnext_atto", 4, 96),
    _image("timm", "efficientnet_b0", 4, 96),
    _image("timm", "regnety_002", 4, 96),
    _image(
        "timm", "swin_tiny_patch4_window7_224", 2, 224, embed_dim=48, depths=(1, 1, 2, 1),
        drop_path_rate=0.0,
    ),
    _image("torchvision", "alexnet", 4, 128),
    _image("torchvision", "squeezenet1_1", 4, 128),
    _image("torchvision", "mobilenet_v2", 4, 96),
    _image("torchvision", "shufflenet_v2_x1_0", 4, 96),
    _image("torchvision", "resnet50", 2, 96),
    _image("torchvision", "mnasnet1_0", 4, 96),
)  # fmt: skip
