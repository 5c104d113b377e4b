# SPDX-License-Identifier: Apache-2.0
"""Push to a real registry, and pull with HTTP requests that share no code with the client."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.oci import push, statements
from tools.oci.credentials import Credentials
from tools.oci.descriptor import Descriptor
from tools.oci.image import Settings
from tools.oci.layout import Image, Layout
from tools.oci.registry import Reference, Registry, RegistryError
from tools.oci.testing import registry_server
from tools.oci.testing.registry_server import PASSWORD, USER
from tools.oci.testing.small_image import small_image

_BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry_server.running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that contains the layouts `image` and `statements` (attestations)."""
    directory = tmp_path_factory.mktemp("image")
    built = small_image(directory, "print('one')\n", Settings(tag="t"))
    _state(directory, built)
    return directory


def _state(directory: Path, image: Image) -> None:
    bill = {"packages": [], "spdxVersion": "SPDX-2.3"}
    origin = {"_type": "https://in-toto.io/Statement/v1"}
    statements.write_statements(directory / "statements", image, bill=bill, origin=origin)


@pytest.fixture
def login(tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"auths": {registry: {"auth": _BASIC}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)


def _push(directory: Path, *arguments: str) -> int:
    layouts = [f"--layout={directory}/image", f"--statements={directory}/statements"]
    return push.main([*layouts, *arguments])


def _get(registry: str, path: str) -> tuple[bytes, dict[str, str]]:
    request = urllib.request.Request(f"http://{registry}/v2/{path}")
    request.add_header("Authorization", f"Basic {_BASIC}")
    formats = [f"application/vnd.oci.image.{kind}.v1+json" for kind in ("manifest", "index")]
    request.add_header("Accept", ", ".join(formats))
    with urllib.request.urlopen(request) as response:
        return response.read(), dict(response.headers)


@pytest.mark.usefixtures("login")
def test_a_pull_gives_the_bytes_of_the_build(
    registry: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _push(image, f"{registry}/team/small:v1", "latest") == 0
    digest = Layout(image / "image").image().descriptor.digest
    assert capsys.readouterr().out == f"{registry}/team/small@{digest}\n"
    for name in ("v1", "latest", digest):
        data, headers = _get(registry, f"team/small/manifests/{name}")
        assert Descriptor.of("", data).digest == digest
        assert headers["Docker-Content-Digest"] == digest
    manifest = json.loads(data)
    for row in (manifest["config"], *manifest["layers"]):
        blob, _ = _get(registry, f"team/small/blobs/{row['digest']}")
        assert Descriptor.of("", blob).digest == row["digest"]


@pytest.mark.usefixtures("login")
def test_statements_name_the_image(registry: str, image: Path) -> None:
    for _ in range(2):  # pushing twice must give the same list
        assert _push(image, f"{registry}/team/stated:v1") == 0
    digest = Layout(image / "image").image().descriptor.digest
    data, _ = _get(registry, f"team/stated/manifests/{digest.replace(':', '-')}")
    rows = json.loads(data)["manifests"]
    artifact_types = [row["artifactType"] for row in rows]
    assert artifact_types == ["application/spdx+json", "application/vnd.in-toto+json"]
    for row in rows:
        manifest = json.loads(_get(registry, f"team/stated/manifests/{row['digest']}")[0])
        assert manifest["subject"]["digest"] == digest
        blob, _ = _get(registry, f"team/stated/blobs/{manifest['layers'][0]['digest']}")
        assert isinstance(json.loads(blob), dict)


@pytest.mark.usefixtures("login")
def test_an_edit_sends_kilobytes(
    registry: str, tmp_path: Path, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _push(image, f"{registry}/team/edited:v1") == 0
    edited = tmp_path / "edited"
    _state(edited, small_image(edited, "print('two')\n"))
    capsys.readouterr()
    assert _push(edited, f"{registry}/team/edited:v2") == 0
    sent = capsys.readouterr().err
    assert " kB of " in sent, sent


@pytest.mark.usefixtures("login")
def test_chunks_give_the_same_image(registry: str, image: Path) -> None:
    assert _push(image, f"{registry}/team/chunks", "--chunk-size=1") == 0
    manifest = json.loads(_get(registry, "team/chunks/manifests/latest")[0])
    for row in manifest["layers"]:
        blob, _ = _get(registry, f"team/chunks/blobs/{row['digest']}")
        assert Descriptor.of("", blob).digest == row["digest"]


def _client(registry: str, repository: str, password: str = PASSWORD) -> Registry:
    reference = Reference.parse(f"{registry}/{repository}:t")
    return Registry(reference, Credentials(USER, password))


def test_a_push_that_was_interrupted_sends_only_the_rest(registry: str, image: Path) -> None:
    layout = Layout(image / "image")
    blobs = layout.image().blobs
    client = _client(registry, "team/rest")
    client.push_blob(blobs[1], layout.path(blobs[1]))
    _, sent = push.push(layout, None, client, ["t"])
    assert sent == sum(blob.size for blob in blobs) - blobs[1].size


def test_a_wrong_password_is_one_line(
    registry: str, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(image / "image")
    with pytest.raises(RegistryError, match=r"status 401: Unauthorized; log in") as caught:
        push.push(layout, None, _client(registry, "team/refused", "wrong"), ["t"])
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    assert _push(image, f"{registry}/team/refused:t") == 3


def test_damaged_blobs_are_not_pushed(registry: str, tmp_path: Path) -> None:
    built = small_image(tmp_path, "print('damaged')\n")
    layout = Layout(tmp_path / "image")
    path = layout.path(built.blobs[-1])
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(RegistryError, match=r"DIGEST_INVALID"):
        push.push(layout, None, _client(registry, "team/damaged"), ["t"])
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _get(registry, "team/damaged/manifests/t")


@pytest.mark.parametrize("text", ["", "small", "host/UPPER", "host/a:b:c", "host/a@sha256:0"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected REGISTRY/REPOSITORY:TAG"):
        Reference.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host/a", ("host", "a", "latest", False)),
        ("localhost:5000/a/b-c:v1.2", ("localhost:5000", "a/b-c", "v1.2", True)),
        ("127.0.0.1:5000/a", ("127.0.0.1:5000", "a", "latest", True)),
        ("[::1]:5000/a", ("[::1]:5000", "a", "latest", True)),
        ("127.0.0.1.example/a", ("127.0.0.1.example", "a", "latest", False)),
    ],
)
def test_an_address(text: str, expected: tuple[Any, ...]) -> None:
    reference = Reference.parse(text)
    parts = (reference.registry, reference.repository, reference.tag, reference.is_loopback)
    assert parts == expected
