# SPDX-License-Identifier: Apache-2.0
"""Read and write OCI image layouts: directories with an index and blobs named by their digests."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from tools.oci.descriptor import CONFIG, INDEX, MANIFEST, REF_NAME, Descriptor, canonical

PLATFORM = {"architecture": "amd64", "os": "linux"}


class LayoutError(ValueError):
    """Raised for an unusable layout. The message contains the directory and the remedy."""


@dataclasses.dataclass(frozen=True)
class Image:
    """An image in a layout: its descriptor, its manifest and its configuration."""

    descriptor: Descriptor
    manifest: dict[str, Any]
    config: dict[str, Any]

    @property
    def blobs(self) -> list[Descriptor]:
        """Return the descriptors of the configuration and the layers."""
        return blobs_of(self.manifest)


class Layout:
    """An OCI image layout in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = directory / "blobs" / "sha256"

    @classmethod
    def create(cls, directory: Path) -> Layout:
        layout = cls(directory)
        layout.blobs.mkdir(parents=True, exist_ok=True)
        (directory / "oci-layout").write_bytes(canonical({"imageLayoutVersion": "1.0.0"}))
        return layout

    def path(self, descriptor: Descriptor) -> Path:
        """Return the path of a blob. Raises LayoutError if it is missing or has the wrong size."""
        path = self.blobs / descriptor.hex
        if not descriptor.digest.startswith("sha256:") or "/" in descriptor.hex:
            raise LayoutError(f"{self.directory}: found the digest {descriptor.digest}, not sha256")
        size = path.stat().st_size if path.is_file() else None
        if size != descriptor.size:
            state = "is missing" if size is None else f"has {size} bytes, not {descriptor.size}"
            raise LayoutError(f"{path}: this blob {state}; build or pull the image again")
        return path

    def read(self, descriptor: Descriptor) -> bytes:
        """Return a blob's contents. Raises LayoutError if they do not match the digest."""
        data = self.path(descriptor).read_bytes()
        if hashlib.sha256(data).hexdigest() != descriptor.hex:
            raise LayoutError(
                f"{self.blobs / descriptor.hex}: its contents do not have this digest; build or "
                "pull the image again"
            )
        return data

    def add(self, media_type: str, data: bytes, **more: Any) -> Descriptor:
        descriptor = Descriptor.of(media_type, data, **more)
        (self.blobs / descriptor.hex).write_bytes(data)
        return descriptor

    def add_image(self, config: dict[str, Any], layers: list[Descriptor], **more: Any) -> Image:
        """Add an image's manifest and configuration. more: additional fields of the manifest."""
        described = self.add(CONFIG, canonical(config))
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described.json(),
            "layers": [layer.json() for layer in layers],
            **more,
        }
        return Image(self.add(MANIFEST, canonical(manifest)), manifest, config)

    def copy(self, descriptor: Descriptor, source: Layout) -> None:
        target = self.blobs / descriptor.hex
        if not target.exists():
            shutil.copyfile(source.path(descriptor), target)

    def write_index(self, manifests: list[Descriptor]) -> None:
        index = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": [descriptor.json() for descriptor in manifests],
        }
        (self.directory / "index.json").write_bytes(canonical(index))

    def manifests(self) -> list[Descriptor]:
        """Return the descriptors in the index."""
        try:
            index = json.loads((self.directory / "index.json").read_bytes())
            return [Descriptor.parse(row) for row in index["manifests"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LayoutError(
                f"{self.directory}: no OCI layout (index.json: {error}); name the directory that "
                "an image rule wrote"
            ) from None

    def image(self) -> Image:
        """Return the image for PLATFORM. Raises LayoutError unless there is exactly one."""
        images = self._images(self.manifests())
        if len(images) != 1:
            platform = "/".join((PLATFORM["os"], PLATFORM["architecture"]))
            raise LayoutError(
                f"{self.directory}: found {len(images)} images for {platform}, expected one"
            )
        manifest = json.loads(self.read(images[0]))
        config = json.loads(self.read(Descriptor.parse(manifest["config"])))
        return Image(images[0], manifest, config)

    def _images(self, rows: list[Descriptor]) -> list[Descriptor]:
        images = []
        for row in rows:
            platform = dict(row.more).get("platform") or PLATFORM
            if row.media_type == INDEX:
                nested = json.loads(self.read(row))["manifests"]
                images += self._images([Descriptor.parse(value) for value in nested])
            elif row.media_type == MANIFEST and PLATFORM.items() <= platform.items():
                images.append(row)
        return images


def blobs_of(manifest: dict[str, Any]) -> list[Descriptor]:
    """Return the descriptors of a manifest's configuration and layers."""
    rows = [manifest["config"], *manifest["layers"]]
    return [Descriptor.parse(row) for row in rows]


def tagged(image: Image, tag: str) -> Descriptor:
    """Return the descriptor of an image as an index entry with a tag."""
    entry = image.descriptor
    more = (("annotations", {REF_NAME: tag}), ("platform", PLATFORM))
    return dataclasses.replace(entry, more=more)
