# SPDX-License-Identifier: Apache-2.0
"""Build an image from the layers of its base, the interpreter, packages and programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tools.oci import program
from tools.oci.finished import FinishedLayers
from tools.oci.layer import Entry, Layer, write_layer
from tools.oci.layout import PLATFORM, Image, Layout, tagged

_EPOCH = "1970-01-01T00:00:00Z"
_BASE_DIGEST = "org.opencontainers.image.base.digest"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of an image that come from its rule's attributes."""

    tag: str
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)


def build_image(
    output: Path, *, pars: list[Path], base: Path, settings: Settings, finished: Path | None = None
) -> Image:
    """Write the layout of an image that adds `pars` to `base` and runs the first of them.

    finished: a directory with compressed layers, which are copied if the image contains them.
    """
    layout, below = Layout.create(output), Layout(base)
    foundation = below.image()
    compressed = FinishedLayers(finished)
    programs = [program.linked(par) for par in pars]
    layers = [
        compressed.write(title, entries, layout.blobs)
        for title, entries in program.layers(programs)
    ]
    entrypoint = programs[0].path
    inherited = foundation.blobs[1:]
    for blob in inherited:
        layout.copy(blob, below)
    labels = settings.labels | {_BASE_DIGEST: foundation.descriptor.digest}
    image = layout.add_image(
        _config(foundation.config, layers, entrypoint, settings),
        [*inherited, *(layer.descriptor for layer in layers)],
        annotations=labels,
    )
    layout.write_index([tagged(image, settings.tag)])
    return image


def build_base(output: Path, *, libraries: list[Path], copyright_file: Path) -> Image:
    """Write the layout of a base image that has the C library and the users root and nonroot."""
    directory = "/lib/x86_64-linux-gnu"
    user = program.USER
    files = {
        "/etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
        f"nonroot:x:{user}:{user}:nonroot:{program.CACHE}:/sbin/nologin\n",
        "/etc/group": f"root:x:0:\nnonroot:x:{user}:\n",
        # torchrun resolves localhost, which needs this file if the container engine does not mount
        # one over it.
        "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/usr/share/doc/libc6/copyright": copyright_file.read_text(),
    }
    entries = [Entry(path, data=text.encode()) for path, text in files.items()]
    for library in libraries:
        entries.append(Entry(f"{directory}/{library.name}", 0o755, library.read_bytes()))
    loader = "ld-linux-x86-64.so.2"
    entries.append(Entry(f"/lib64/{loader}", 0o777, target=f"{directory}/{loader}"))
    layout = Layout.create(output)
    layer = write_layer("libc", entries, layout.blobs)
    config: dict[str, Any] = {"config": {}, "history": [], "rootfs": {"diff_ids": []}}
    _append(config, [layer])
    image = layout.add_image(config, [layer.descriptor])
    layout.write_index([tagged(image, "libc")])
    return image


def _config(
    base: dict[str, Any], layers: list[Layer], entrypoint: str, settings: Settings
) -> dict[str, Any]:
    inherited = dict(base.get("config") or {})
    env = dict(item.split("=", 1) for item in inherited.get("Env") or [])
    env |= {
        "PATH": ":".join(filter(None, (program.DIRECTORY, env.get("PATH")))),
        "HOME": program.CACHE,
        "USER": "nonroot",
        # A PAR accepts only a cache directory that its user owns. A volume mounted at CACHE may
        # belong to root, so the PAR creates a directory in it.
        "PAR_CACHE_DIR": f"{program.CACHE}/par",
        # Libraries use this cache. So do programs built with `doors = False`, because they ignore
        # PAR_CACHE_DIR.
        "XDG_CACHE_HOME": program.CACHE,
    }
    env |= settings.env
    inherited.pop("Cmd", None)  # Cmd contains the arguments of the base image's own program
    config = dict(base)
    config["config"] = inherited | {
        "Entrypoint": [entrypoint],
        "Env": [f"{name}={value}" for name, value in sorted(env.items())],
        "Labels": (inherited.get("Labels") or {}) | settings.labels,
        "User": f"{program.USER}:{program.USER}",
        "Volumes": (inherited.get("Volumes") or {}) | {program.CACHE: {}, "/tmp": {}},
        "WorkingDir": "/",
    }
    _append(config, layers)
    return config


def _append(config: dict[str, Any], layers: list[Layer]) -> None:
    """Add layers to an image's configuration, with fixed timestamps."""
    config |= PLATFORM | {"created": _EPOCH}
    below = config["rootfs"]["diff_ids"]
    config["rootfs"] = {
        "type": "layers",
        "diff_ids": [*below, *(layer.diff_id for layer in layers)],
    }
    history = config.get("history") or []
    # rules_oci writes no history, but some tools require a history entry for every layer.
    rows = sum(not row.get("empty_layer") for row in history)
    missing = [{"created": _EPOCH, "created_by": "base"}] * (len(below) - rows)
    config["history"] = [
        *history,
        *missing,
        *({"created": _EPOCH, "created_by": layer.title} for layer in layers),
    ]
