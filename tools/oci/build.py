# SPDX-License-Identifier: Apache-2.0
"""The command that the rules run.

`base` and `image` write layouts, `layers` compresses layers for an image, and `tar` packs a layout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from pathlib import Path

from tools.oci import program, statements
from tools.oci.finished import write_layers
from tools.oci.image import Settings, build_base, build_image
from tools.oci.layout import Layout


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        options.run(options)
    except ValueError as error:
        print(f"oci: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"oci: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


def _base(options: argparse.Namespace) -> None:
    libraries = sorted(options.libraries, key=lambda path: path.name)
    build_base(options.output, libraries=libraries, copyright_file=options.copyright)


def _layers(options: argparse.Namespace) -> None:
    programs = [
        program.unlinked(
            row["name"],
            Path(row["launcher"]),
            [Path(bundle) for bundle in row["bundles"]],
            doors=row["doors"],
        )
        for row in json.loads(options.programs)
    ]
    write_layers(options.output, program.shared_layers(programs))


def _image(options: argparse.Namespace) -> None:
    settings = Settings(
        tag=options.tag, env=json.loads(options.env), labels=json.loads(options.labels)
    )
    image = build_image(
        options.output,
        pars=options.par,
        base=options.base,
        settings=settings,
        finished=options.layers,
    )
    pars = {par.name: statements.read_contents(par) for par in options.par}
    name = options.target.rpartition(":")[2]
    materials = dict(item.split("=", 1) for item in options.material)
    bill = statements.bill_of_materials(
        image,
        name,
        list(pars.values()),
        statements.read_bill(options.bill),
        with_libc=options.libc,
    )
    origin = statements.provenance(
        image,
        name,
        target=options.target,
        pars=pars,
        base=Layout(options.base).image().descriptor,
        materials={key: Path(path) for key, path in sorted(materials.items())},
    )
    statements.write_statements(options.statements, image, bill=bill, origin=origin)


def _tar(options: argparse.Namespace) -> None:
    root = options.layout
    with tarfile.open(options.output, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                info = tarfile.TarInfo(str(path.relative_to(root)))
                info.size = path.stat().st_size
                with path.open("rb") as stream:
                    archive.addfile(info, stream)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oci", description=__doc__, fromfile_prefix_chars="@")
    commands = parser.add_subparsers(required=True)
    base = commands.add_parser("base")
    base.set_defaults(run=_base)
    base.add_argument("--output", type=Path, required=True)
    base.add_argument("--copyright", type=Path, required=True)
    base.add_argument("libraries", type=Path, nargs="+")
    layers = commands.add_parser("layers")
    layers.set_defaults(run=_layers)
    layers.add_argument("--output", type=Path, required=True)
    layers.add_argument("--programs", required=True, help="JSON: name, launcher, bundles, doors")
    image = commands.add_parser("image")
    image.set_defaults(run=_image)
    image.add_argument("--output", type=Path, required=True)
    image.add_argument("--statements", type=Path, required=True)
    image.add_argument("--base", type=Path, required=True)
    image.add_argument("--par", type=Path, action="append", required=True)
    image.add_argument("--tag", required=True)
    image.add_argument("--env", default="{}")
    image.add_argument("--labels", default="{}")
    image.add_argument("--target", required=True)
    image.add_argument("--bill", type=Path, required=True)
    image.add_argument("--layers", type=Path, help="a directory that `layers` has written")
    image.add_argument("--libc", action="store_true")
    image.add_argument("--material", action="append", default=[])
    tar = commands.add_parser("tar")
    tar.set_defaults(run=_tar)
    tar.add_argument("--output", type=Path, required=True)
    tar.add_argument("layout", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
