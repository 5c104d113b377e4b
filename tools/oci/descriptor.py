# SPDX-License-Identifier: Apache-2.0
"""Descriptors and media types of the OCI image format, and canonical JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
REF_NAME = "org.opencontainers.image.ref.name"
# Maps Docker's media types, which base images may use, to the equivalent OCI media types.
_OF_DOCKER = {
    "application/vnd.docker.distribution.manifest.list.v2+json": INDEX,
    "application/vnd.docker.distribution.manifest.v2+json": MANIFEST,
    "application/vnd.docker.container.image.v1+json": CONFIG,
    "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": (
        "application/vnd.oci.image.layer.v1.tar+gzip"
    ),
}


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """The media type, digest and size of a blob or manifest."""

    media_type: str
    digest: str
    size: int
    more: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Descriptor:
        media_type = _OF_DOCKER.get(value["mediaType"], value["mediaType"])
        more = {k: v for k, v in value.items() if k not in ("mediaType", "digest", "size")}
        return cls(media_type, value["digest"], value["size"], tuple(sorted(more.items())))

    @classmethod
    def of(cls, media_type: str, data: bytes, **more: Any) -> Descriptor:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        return cls(media_type, digest, len(data), tuple(sorted(more.items())))

    def json(self) -> dict[str, Any]:
        value = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        return value | dict(self.more)

    @property
    def hex(self) -> str:
        return self.digest.partition(":")[2]


def canonical(value: Any) -> bytes:
    """Return the value as canonical JSON, in which equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
