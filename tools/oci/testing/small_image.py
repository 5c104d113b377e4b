# SPDX-License-Identifier: Apache-2.0
"""Build small PARs and images in a test, with the launcher that build tools use."""

from __future__ import annotations

from pathlib import Path

from tools.oci.image import Settings, build_base, build_image
from tools.oci.layout import Image
from tools.par.compiler.link import link

_WORKSPACE = Path(__file__).parents[3]
LAUNCHER = _WORKSPACE / "tools/par/launcher/launcher"
BUNDLES = [_WORKSPACE / f"tools/par/runtime/{name}.parlib" for name in ("stdlib", "runtime")]


def small_par(path: Path, source: str, *, doors: bool = True) -> Path:
    """Link a PAR at `path` whose only module has the text `source`.

    The module's name is that of the PAR file, without the suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    module = path.with_suffix(".py")
    module.write_text(source)
    link(
        path,
        launcher=LAUNCHER,
        bundles=BUNDLES,
        files=[(module.name, str(module))],
        settings={"main": module.stem, "fast_exit": True, "startup_gc": False},
        info={},
        doors=doors,
    )
    return path


def small_base(directory: Path) -> Path:
    """Write a base layout with placeholders instead of real libraries."""
    library = directory / "libc.so.6"
    directory.mkdir(parents=True)
    library.write_text("a library\n")
    notice = directory / "copyright"
    notice.write_text("a licence\n")
    build_base(directory / "base", libraries=[library], copyright_file=notice)
    return directory / "base"


def small_image(directory: Path, source: str, settings: Settings | None = None) -> Image:
    """Build an image of a one-module program in the subdirectory `image` of `directory`."""
    par = small_par(directory / "small.par", source)
    base = small_base(directory / "below")
    return build_image(
        directory / "image", pars=[par], base=base, settings=settings or Settings(tag="latest")
    )
