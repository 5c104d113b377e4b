# SPDX-License-Identifier: Apache-2.0
"""In a PAR, Pillow decodes images and torchvision transforms them; torchvision.io cannot decode."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, io, transforms, tv_tensors, utils
from torchvision.transforms import v2

_COLOURS = {"blue": (10, 20, 200), "red": (200, 20, 10)}


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a subfolder for each class, and in it four images of one colour."""
    folder = tmp_path_factory.mktemp("images")
    for name, colour in _COLOURS.items():
        (folder / name).mkdir()
        for index in range(4):
            Image.new("RGB", (20 + index, 16), colour).save(folder / name / f"{index}.png")
    return folder


def test_an_import_warns_of_nothing() -> None:
    program = "import torchvision; print(torchvision.extension._has_ops())"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("True\n", "", 0)


def test_the_operators_know_no_cuda() -> None:
    assert torch.ops.torchvision._cuda_version() == -1
    assert not hasattr(torchvision.version, "cuda")


@pytest.mark.parametrize("kind", ["png", "bmp", "webp", "gif"])
def test_a_decoded_image_becomes_a_tensor(tmp_path: Path, kind: str) -> None:
    pixels = np.zeros((5, 7, 3), np.uint8)
    pixels[2, 3] = (255, 0, 255)
    file = tmp_path / f"image.{kind}"
    Image.fromarray(pixels).save(file, **({"lossless": True} if kind == "webp" else {}))
    tensor = transforms.ToTensor()(Image.open(file).convert("RGB"))
    assert tensor.shape == (3, 5, 7)
    assert tensor.nonzero().tolist() == [[0, 2, 3], [2, 2, 3]]
    assert tensor.max() == 1


def test_a_jpeg_is_decoded(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), _COLOURS["red"]).save(tmp_path / "image.jpeg", quality=100)
    tensor = transforms.PILToTensor()(Image.open(tmp_path / "image.jpeg"))
    expected = torch.tensor(_COLOURS["red"], dtype=torch.uint8)[:, None, None].expand(3, 8, 8)
    torch.testing.assert_close(tensor, expected, rtol=0, atol=2)


def test_a_folder_of_images_is_a_data_set(folder: Path) -> None:
    pipeline = v2.Compose([v2.ToImage(), v2.CenterCrop(16), v2.ToDtype(torch.float32, scale=True)])
    images = datasets.ImageFolder(str(folder), transform=pipeline)
    assert images.classes == ["blue", "red"]
    batches = list(DataLoader(images, batch_size=3, num_workers=1))
    assert [len(labels) for _, labels in batches] == [3, 3, 2]
    for values, labels in batches:
        assert values.shape[1:] == (3, 16, 16)
        expected = torch.tensor([_COLOURS[images.classes[label]] for label in labels]) / 255
        torch.testing.assert_close(values.mean((2, 3)), expected)


def test_boxes_move_with_their_image() -> None:
    image = tv_tensors.Image(torch.zeros(3, 10, 20, dtype=torch.uint8))
    boxes = tv_tensors.BoundingBoxes([[2, 1, 8, 5]], format="XYXY", canvas_size=(10, 20))
    pipeline = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((20, 40))])
    flipped, moved = pipeline(image, boxes)
    assert flipped.shape == (3, 20, 40)
    assert moved.tolist() == [[24, 2, 36, 10]]


def test_a_grid_of_images_is_saved(tmp_path: Path) -> None:
    utils.save_image(torch.ones(4, 3, 6, 6), str(tmp_path / "grid.png"), nrow=2, padding=1)
    assert Image.open(tmp_path / "grid.png").size == (15, 15)


def test_torchvision_io_names_the_missing_library(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="Couldn't load the image extension"):
        io.decode_image(str(folder / "red" / "0.png"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert io.ImageReadMode.RGB.value == 3
