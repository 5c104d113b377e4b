# SPDX-License-Identifier: Apache-2.0
"""Push an image and its attestations to a registry, without changing the image's digest.

    bazel run //PACKAGE:NAME.push -- REGISTRY/REPOSITORY:TAG [TAG ...]

A layer that the registry already has is not sent again, so an interrupted push can be continued.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import sys
from pathlib import Path

from tools.oci import credentials
from tools.oci.credentials import CredentialsError
from tools.oci.descriptor import Descriptor
from tools.oci.layout import Image, Layout, blobs_of
from tools.oci.registry import Reference, Registry, RegistryError

_PARALLEL = 3  # the number of concurrent transfers, as in docker


def push(
    layout: Layout,
    statements: Layout | None,
    registry: Registry,
    tags: list[str],
    *,
    chunk: int = 0,
) -> tuple[Image, int]:
    """Push an image under each tag. Return the image and the number of bytes sent."""
    image = layout.image()
    sent = _push_blobs(layout, image.blobs, registry, chunk)
    data = layout.read(image.descriptor)
    for tag in tags:
        registry.push_manifest(data, tag)
    for row in statements.manifests() if statements else []:
        assert statements is not None
        manifest = statements.read(row)
        sent += _push_blobs(statements, blobs_of(json.loads(manifest)), registry, chunk)
        registry.attach(row, manifest)
    return image, sent


def _push_blobs(layout: Layout, blobs: list[Descriptor], registry: Registry, chunk: int) -> int:
    def send(blob: Descriptor) -> int:
        if registry.has_blob(blob):
            return 0
        registry.push_blob(blob, layout.path(blob), chunk=chunk)
        return blob.size

    first, *others = {blob.digest: blob for blob in blobs}.values()
    sent = send(first)  # log in once, before the threads start
    with concurrent.futures.ThreadPoolExecutor(_PARALLEL) as pool:
        return sent + sum(pool.map(send, others))


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        reference = Reference.parse(options.reference)
        known = credentials.find(reference.registry, os.environ)
        registry = Registry(reference, known, http=options.http)
        tags = [reference.tag, *options.tags]
        statements = None if options.no_statements else Layout(options.statements)
        image, sent = push(
            Layout(options.layout), statements, registry, tags, chunk=options.chunk_size << 20
        )
    except ValueError as error:
        print(f"push: {error}", file=sys.stderr)
        return 1
    except (RegistryError, CredentialsError, OSError) as error:
        print(f"push: {error}", file=sys.stderr)
        return 3
    size = sum(blob.size for blob in image.blobs)
    print(f"push: sent {_bytes(sent)} of {_bytes(size)}", file=sys.stderr)
    print(f"{reference.registry}/{reference.repository}@{image.descriptor.digest}")
    return 0


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="push", description=__doc__.partition("\n")[0])
    parser.add_argument("--layout", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--statements", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("reference", metavar="REGISTRY/REPOSITORY[:TAG]")
    parser.add_argument("tags", metavar="TAG", nargs="*", help="further tags")
    parser.add_argument("--http", action="store_true", help="connect without encryption")
    parser.add_argument(
        "--chunk-size",
        metavar="MIB",
        type=int,
        default=0,
        help="send layers in requests of this size; by default, one request for each layer",
    )
    parser.add_argument(
        "--no-statements",
        action="store_true",
        help="do not push the bill of materials and the provenance",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
