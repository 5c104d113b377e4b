# SPDX-License-Identifier: Apache-2.0
"""Test images of small programs with a reader that shares no code with the writer."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools.oci import build, finished, program
from tools.oci.image import Settings, build_image
from tools.oci.layer import Entry, Layer, write_layer
from tools.oci.layout import Layout, LayoutError
from tools.oci.testing.reader import File, read_image
from tools.oci.testing.small_image import BUNDLES, LAUNCHER, small_base, small_image, small_par
from tools.par.compiler.parts import Part

_TESTING = Path(__file__).parent / "testing"
_SOURCE = "import sys\nprint('hello', sys.argv[1:])\n"


def _write(files: dict[str, File], root: Path) -> None:
    for path, file in files.items():
        target = root / path.lstrip("/")
        if file.kind == "directory":
            target.mkdir(parents=True, exist_ok=True)
        elif file.kind == "file":
            target.write_bytes(file.data)
            target.chmod(file.mode)
        elif file.kind == "hard link":
            target.hardlink_to(root / file.target)


def test_the_layers_and_the_configuration(tmp_path: Path) -> None:
    settings = Settings(tag="v1", env={"A": "b=c"}, labels={"who": "me"})
    built = small_image(tmp_path, _SOURCE, settings)
    image = read_image(tmp_path / "image")
    assert image.digest == built.descriptor.digest
    titles = [row["created_by"] for row in image.config["history"]]
    assert titles == ["libc", "interpreter", "libraries", "programs"]
    config = image.config["config"]
    assert config["Entrypoint"] == ["/app/small.par"]
    assert config["User"] == "65532:65532"
    assert config["Labels"] == {"who": "me"}
    assert set(config["Volumes"]) == {"/cache", "/tmp"}
    assert {"A=b=c", "PAR_CACHE_DIR=/cache/par", "PATH=/app", "USER=nonroot"} <= set(config["Env"])
    base = read_image(tmp_path / "below/base")
    assert image.manifest["annotations"] == {
        "org.opencontainers.image.base.digest": base.digest,
        "who": "me",
    }
    assert image.manifest["layers"][0] == base.manifest["layers"][0]


def test_no_file_belongs_to_the_user_or_has_a_time(tmp_path: Path) -> None:
    small_image(tmp_path, _SOURCE)
    files = read_image(tmp_path / "image").files()
    assert {path for path, file in files.items() if file.owner != (0, 0)} == {"/cache"}
    assert {file.time for file in files.values()} == {0}
    others = {path for path, file in files.items() if file.kind != "link" and file.mode & 0o022}
    assert others == {"/tmp"}
    assert not [path for path in files if path.endswith("/sh")]


def test_the_program_of_the_layers_runs(tmp_path: Path) -> None:
    small_image(tmp_path, _SOURCE)
    root = tmp_path / "root"
    _write(read_image(tmp_path / "image").files(), root)
    environment = {"PAR_CACHE_DIR": str(tmp_path / "cache"), "PAR_VERIFY": "1"}
    done = subprocess.run(
        [root / "app/small.par", "x"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello ['x']\n", "")


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        small_image(tmp_path / name, _SOURCE)
    one, two = (tmp_path / name / "image" for name in ("one", "two"))
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two) for path in two.rglob("*") if path.is_file())
    assert [str(f) for f in files if (one / f).read_bytes() != (two / f).read_bytes()] == []


def test_an_edit_changes_one_small_layer(tmp_path: Path) -> None:
    small_image(tmp_path / "one", _SOURCE)
    small_image(tmp_path / "two", _SOURCE.replace("hello", "good morning"))
    one, two = (read_image(tmp_path / name / "image").manifest for name in ("one", "two"))
    known = {row["digest"] for row in one["layers"]}
    changed = [row["size"] for row in two["layers"] if row["digest"] not in known]
    assert len(changed) == 1
    assert changed[0] < 200_000
    assert sum(row["size"] for row in two["layers"]) > 5_000_000


@pytest.mark.parametrize("doors", [True, False])
def test_only_layers_with_workspace_code_are_compressed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doors: bool
) -> None:
    """The layers of the launcher and the bundles have the same bytes before and after linking."""
    (tmp_path / "layers").mkdir()
    bundles = [str(path) for path in BUNDLES]
    row = {"name": "a.par", "launcher": str(LAUNCHER), "bundles": bundles, "doors": doors}
    arguments = [f"--output={tmp_path}/layers", f"--programs={json.dumps([row])}"]
    assert build.main(["layers", *arguments]) == 0
    par = small_par(tmp_path / "a.par", _SOURCE, doors=doors)
    base = small_base(tmp_path / "below")
    settings = Settings(tag="t")
    build_image(tmp_path / "expected", pars=[par], base=base, settings=settings)
    compressed = []

    def note(title: str, entries: list[Entry], blobs: Path) -> Layer:
        compressed.append(title)
        return write_layer(title, entries, blobs)

    monkeypatch.setattr(finished, "write_layer", note)
    build_image(
        tmp_path / "image", pars=[par], base=base, settings=settings, finished=tmp_path / "layers"
    )
    assert compressed == ["libraries", "programs"]
    assert read_image(tmp_path / "image") == read_image(tmp_path / "expected")


def test_two_programs_share_their_interpreter(tmp_path: Path) -> None:
    pars = [small_par(tmp_path / f"{name}.par", _SOURCE) for name in ("one", "two")]
    base = small_base(tmp_path / "below")
    build_image(tmp_path / "image", pars=pars, base=base, settings=Settings(tag="latest"))
    image = read_image(tmp_path / "image")
    assert image.config["config"]["Entrypoint"] == ["/app/one.par"]
    root = tmp_path / "root"
    _write(image.files(), root)
    assert len(list((root / "app/parts").glob("stdlib-*"))) == 1
    assert image.files()["/app/two.par"].kind == "hard link"
    assert (root / "app/two.par").samefile(root / "app/one.par")
    for name in ("one", "two"):
        environment = {"PAR_CACHE_DIR": str(tmp_path / "cache")}
        program = root / f"app/{name}.par"
        output = subprocess.check_output([program], env=environment, text=True)
        assert output == "hello []\n"


def test_programs_of_one_name_are_refused(tmp_path: Path) -> None:
    pars = [small_par(tmp_path / name / "same.par", _SOURCE) for name in ("one", "two")]
    base = small_base(tmp_path / "below")
    with pytest.raises(ValueError, match=r"two programs have the same name \(same\.par, same\.par"):
        build_image(tmp_path / "image", pars=pars, base=base, settings=Settings(tag="latest"))


def test_a_package_may_have_the_name_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher joins the parts in the order of the PAR."""
    names = ["launcher", "stdlib", "libraries", "numpy", "libraries", "program"]
    cut = [Part(name, f"{name} {index}\n".encode()) for index, name in enumerate(names)]
    monkeypatch.setattr("tools.par.compiler.parts.cut", lambda *_: cut)
    path = tmp_path / "a.par"
    path.write_bytes(b"x")
    *_, (title, own) = program.layers([program.linked(path)])
    assert title == "programs"
    (rows,) = [entry.data or b"" for entry in own if entry.path.endswith(".par_parts")]
    files = [line.split()[1].decode() for line in bytes(rows).splitlines()[1:]]
    expected = [f"parts/{part.name}-{part.digest[:16]}" for part in cut[1:-1]]
    assert files == [*expected, "a.par.program"]


def test_an_image_can_be_the_base(tmp_path: Path) -> None:
    """An image inherits its base's environment variables and layers, but not its arguments."""
    small_image(tmp_path / "one", _SOURCE, Settings(tag="a", env={"PATH": "/bin", "KEPT": "1"}))
    par = small_par(tmp_path / "above.par", _SOURCE)
    build_image(
        tmp_path / "two", pars=[par], base=tmp_path / "one/image", settings=Settings(tag="b")
    )
    image = read_image(tmp_path / "two")
    titles = [row["created_by"] for row in image.config["history"]]
    own_layers = ["interpreter", "libraries", "programs"]
    assert titles == ["libc", *own_layers, *own_layers]
    assert {"KEPT=1", "PATH=/app:/bin"} <= set(image.config["config"]["Env"])
    assert image.config["config"]["Entrypoint"] == ["/app/above.par"]


_DOCKER = "application/vnd.docker"
_OCI = "application/vnd.oci.image"
_TYPES = {
    "oci": (f"{_OCI}.manifest.v1+json", f"{_OCI}.config.v1+json", f"{_OCI}.layer.v1.tar+gzip"),
    "docker": (
        f"{_DOCKER}.distribution.manifest.v2+json",
        f"{_DOCKER}.container.image.v1+json",
        f"{_DOCKER}.image.rootfs.diff.tar.gzip",
    ),
}


def _rules_oci_image(directory: Path, kind: str) -> Path:
    """Write a layout as rules_oci does, with OCI's or Docker's media types, depending on `kind`.

    Layers are links to files outside the layout. The configuration has no history, and the index's
    entry has neither a platform nor a name. Manifests of earlier build steps remain among the
    blobs.
    """
    manifest_type, config_type, layer_type = _TYPES[kind]
    layout = directory / "base"
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("etc/from_the_base")
        archive.addfile(info)
    layer = gzip.compress(buffer.getvalue())
    (directory / "layer.tar.gz").write_bytes(layer)
    digest = hashlib.sha256(layer).hexdigest()
    (blobs / digest).symlink_to("../../../layer.tar.gz")
    diff_id = f"sha256:{hashlib.sha256(buffer.getvalue()).hexdigest()}"
    config = {
        "architecture": "amd64",
        "config": {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]},
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    }
    manifest: dict[str, object] = {"schemaVersion": 2, "mediaType": manifest_type, "layers": []}
    manifest["config"] = put(json.dumps(config).encode()) | {"mediaType": config_type}
    put(json.dumps(manifest).encode())
    manifest["layers"] = [
        {"digest": f"sha256:{digest}", "size": len(layer), "mediaType": layer_type}
    ]
    row = put(json.dumps(manifest).encode()) | {"mediaType": manifest_type}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [row]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return layout


@pytest.mark.parametrize("kind", ["oci", "docker"])
def test_a_layout_of_rules_oci_can_be_the_base(tmp_path: Path, kind: str) -> None:
    base = _rules_oci_image(tmp_path, kind)
    par = small_par(tmp_path / "small.par", _SOURCE)
    build_image(tmp_path / "image", pars=[par], base=base, settings=Settings(tag="t"))
    image = read_image(tmp_path / "image")
    assert "/etc/from_the_base" in image.layers[0]
    types = {row["mediaType"] for row in image.manifest["layers"]}
    assert types == {_TYPES["oci"][2], f"{_OCI}.layer.v1.tar+zstd"}
    # The history has an entry for every layer, including the base's.
    titles = [row["created_by"] for row in image.config["history"]]
    assert titles == ["base", "interpreter", "libraries", "programs"]
    config = image.config["config"]
    assert "Cmd" not in config
    assert "PATH=/app:/bin" in config["Env"]
    assert not [path for path in (tmp_path / "image").rglob("*") if path.is_symlink()]


def test_rules_oci_finds_one_image_and_only_its_blobs(tmp_path: Path) -> None:
    """rules_oci copies all blobs of a layout and uses the first manifest in its index."""
    small_image(tmp_path, _SOURCE)
    index = json.loads((tmp_path / "image/index.json").read_text())
    (row,) = index["manifests"]
    assert row["mediaType"] == _TYPES["oci"][0]
    manifest = read_image(tmp_path / "image").manifest
    assert manifest["mediaType"] == row["mediaType"]
    assert manifest["config"]["mediaType"] == _TYPES["oci"][1]
    used = [row, manifest["config"], *manifest["layers"]]
    names = {path.name for path in (tmp_path / "image/blobs/sha256").iterdir()}
    assert names == {descriptor["digest"].partition(":")[2] for descriptor in used}


def test_a_static_program_on_a_base_of_links(tmp_path: Path) -> None:
    """The base's blobs are symbolic links, and the interpreter contains the test's C extension."""
    image = read_image(_TESTING / "linked_image")
    root = tmp_path / "root"
    _write(image.files(), root)
    done = subprocess.run(
        [root / "app/static.par", "x"],
        env={"PAR_CACHE_DIR": str(tmp_path / "cache"), "PAR_VERIFY": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "42 static ['x']\n", "")
    assert image.config["config"]["Entrypoint"] == ["/app/static.par"]
    static = image.files()["/app/static.par"].data
    hello = read_image(_TESTING / "hello_image").files()["/app/hello.par"].data
    assert b"tools.oci.testing._native" in static
    assert b"tools.oci.testing._native" not in hello


def test_both_programs_of_an_image_of_the_rule_run(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _write(read_image(_TESTING / "hello_image").files(), root)
    for name in ("hello", "closed"):
        environment = {"PAR_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
        program = root / f"app/{name}.par"
        output = subprocess.check_output([program, "x"], env=environment, text=True)
        assert json.loads(output)["arguments"] == ["x"]


def test_a_base_that_is_damaged_is_refused(tmp_path: Path) -> None:
    base = small_base(tmp_path / "below")
    layer = Layout(base).image().blobs[1]
    par = small_par(tmp_path / "small.par", _SOURCE)
    (base / "blobs/sha256" / layer.hex).unlink()
    with pytest.raises(LayoutError, match=r"this blob is missing; build or pull the image again"):
        build_image(tmp_path / "image", pars=[par], base=base, settings=Settings(tag="t"))
    with pytest.raises(LayoutError, match=r"no OCI layout"):
        Layout(tmp_path).image()


def test_two_files_of_one_path_are_refused(tmp_path: Path) -> None:
    entries = [Entry("/a/b", data=b"1"), Entry("a/b", data=b"2")]
    with pytest.raises(ValueError, match=r"a/b: two files of the image have this path"):
        write_layer("twice", entries, tmp_path)
    assert os.listdir(tmp_path) == []


def test_the_tar_has_the_layout(tmp_path: Path) -> None:
    small_image(tmp_path, _SOURCE)
    output = tmp_path / "image.tar"
    assert build.main(["tar", f"--output={output}", str(tmp_path / "image")]) == 0
    with tarfile.open(output) as archive:
        archive.extractall(tmp_path / "again")
    assert read_image(tmp_path / "again") == read_image(tmp_path / "image")


def test_a_file_that_is_no_par_gives_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = small_base(tmp_path / "below")
    (tmp_path / "no.par").write_text("x" * 5000)
    paths = {"output": "image", "statements": "s", "par": "no.par", "bill": "bill"}
    arguments = [f"--{name}={tmp_path}/{path}" for name, path in paths.items()]
    arguments += [f"--base={base}", "--tag=t", "--target=//a:b"]
    assert build.main(["image", *arguments]) == 1
    assert "no.par: not a finished archive" in capsys.readouterr().err
