# SPDX-License-Identifier: Apache-2.0
"""Exchange images with skopeo and buildah, in both directions.

Run this test manually, as root, with Debian's skopeo, buildah and docker-registry; see README.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.oci.image import Settings, build_image
from tools.oci.testing import registry_server
from tools.oci.testing.reader import Image, read_image
from tools.oci.testing.registry_server import PASSWORD, USER
from tools.oci.testing.small_image import small_par

_HELLO = Path(__file__).parent / "testing/hello_image"  # its tag is `test`
_ANY_IMAGE = json.dumps({"default": [{"type": "insecureAcceptAnything"}]})


def _program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        return pytest.skip(f"this machine has no {name}: `apt-get install {name}`")
    return program


@pytest.fixture
def skopeo(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs skopeo, and returns its output."""
    program = _program("skopeo")
    policy = tmp_path / "policy.json"
    policy.write_text(_ANY_IMAGE)
    return lambda *arguments: _run(program, f"--policy={policy}", *arguments)


@pytest.fixture
def layouts() -> Iterator[Path]:
    """Yield a directory for layouts that buildah reads.

    buildah makes the name of an image from the path, so each part of the path must be a valid name.
    The paths of Bazel's tests are not.
    """
    directory = Path(f"/tmp/torch-google-{os.getpid()}")
    directory.mkdir()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Yield a function that runs buildah with its own storage, and returns its output."""
    program = _program("buildah")
    if os.geteuid() != 0:
        pytest.skip("only root can mount buildah's containers")
    policy = tmp_path / "policy.json"
    policy.write_text(_ANY_IMAGE)
    storage = [f"--root={tmp_path}/storage", f"--runroot={tmp_path}/run", "--storage-driver=vfs"]

    def run(command: str, *arguments: str) -> str:
        trust = [f"--signature-policy={policy}"] if command in ("from", "commit") else []
        return _run(program, *storage, command, *trust, *arguments)

    yield run
    run("rm", "--all")
    run("rmi", "--all", "--force")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


def _diff_ids(image: Image) -> list[str]:
    return list(image.config["rootfs"]["diff_ids"])


def test_skopeo_keeps_the_digest_of_the_layout(tmp_path: Path, skopeo: Callable[..., str]) -> None:
    with registry_server.running(tmp_path) as registry:
        address = f"docker://{registry}/team/hello:v1"
        access = ["--dest-tls-verify=false", f"--dest-creds={USER}:{PASSWORD}"]
        skopeo("copy", "--preserve-digests", *access, f"oci:{_HELLO}:test", address)
        access = ["--tls-verify=false", f"--creds={USER}:{PASSWORD}"]
        pushed = json.loads(skopeo("inspect", *access, address))
    image = read_image(_HELLO)
    assert pushed["Digest"] == image.digest
    assert pushed["Layers"] == [layer["digest"] for layer in image.manifest["layers"]]


def test_buildah_uses_our_image_as_its_base(
    tmp_path: Path, layouts: Path, buildah: Callable[..., str]
) -> None:
    (tmp_path / "added").write_text("added\n")
    shutil.copytree(_HELLO, layouts / "hello")
    container = buildah("from", f"oci:{layouts}/hello:test")
    buildah("copy", container, str(tmp_path / "added"), "/added")
    buildah("commit", container, f"oci:{tmp_path}/above:latest")
    below, above = read_image(_HELLO), read_image(tmp_path / "above")
    assert _diff_ids(above)[: len(below.layers)] == _diff_ids(below)
    assert above.files()["/added"].data == b"added\n"
    for key in ("Entrypoint", "User", "Volumes"):
        assert above.config["config"][key] == below.config["config"][key]


def test_oci_image_uses_an_image_of_buildah_as_its_base(
    tmp_path: Path, layouts: Path, buildah: Callable[..., str]
) -> None:
    (tmp_path / "below").write_text("below\n")
    container = buildah("from", "scratch")
    buildah("copy", container, str(tmp_path / "below"), "/below")
    buildah("config", "--env=KEPT=1", "--cmd=/bin/sh", container)
    buildah("commit", container, f"oci:{tmp_path}/base:latest")
    par = small_par(tmp_path / "small.par", "print('one')\n")
    build_image(
        layouts / "image", pars=[par], base=tmp_path / "base", settings=Settings(tag="latest")
    )
    image = read_image(layouts / "image")
    base = read_image(tmp_path / "base")
    assert _diff_ids(image)[: len(base.layers)] == _diff_ids(base)
    assert image.files()["/below"].data == b"below\n"
    assert "KEPT=1" in image.config["config"]["Env"]
    assert image.config["config"]["Entrypoint"] == ["/app/small.par"]
    # Check that buildah can read the result.
    buildah("from", f"oci:{layouts}/image:latest")
