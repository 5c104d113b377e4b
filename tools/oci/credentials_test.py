# SPDX-License-Identifier: Apache-2.0
"""Test credentials in docker's and podman's files, and from real helper programs."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tools.oci.credentials import Credentials, CredentialsError, find

_AUTH = base64.b64encode(b"me:pass:word").decode()
_HELPER = """\
#!/bin/sh
read key
case $key in
  host) echo '{"ServerURL": "host", "Username": "helped", "Secret": "s"}' ;;
  token) echo '{"Username": "<token>", "Secret": "t"}' ;;
  broken) echo no json ;;
  failing) echo the keyring is locked >&2; exit 2 ;;
  *) echo credentials not found in native keychain; exit 1 ;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    helper = tmp_path / "bin/docker-credential-test"
    helper.parent.mkdir()
    helper.write_text(_HELPER)
    helper.chmod(0o755)
    return {"HOME": str(tmp_path / "home"), "PATH": f"{helper.parent}:{os.environ['PATH']}"}


def _write(path: Path, config: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("key", ["host", "https://host", "https://host/v1/", "https://host/v2/"])
def test_a_password_in_the_file(environ: dict[str, str], key: str) -> None:
    _write(Path(environ["HOME"], ".docker/config.json"), {"auths": {key: {"auth": _AUTH}}})
    assert find("host", environ) == Credentials("me", "pass:word")
    assert find("other", environ) is None


@pytest.mark.parametrize("config", [{"credsStore": "test"}, {"credHelpers": {"host": "test"}}])
def test_a_helper(environ: dict[str, str], config: dict[str, Any]) -> None:
    _write(Path(environ["HOME"], ".docker/config.json"), config | {"auths": {"host": {}}})
    assert find("host", environ) == Credentials("helped", "s")
    assert find("unknown", environ) is None


def test_identity_tokens(environ: dict[str, str]) -> None:
    path = Path(environ["HOME"], ".docker/config.json")
    _write(path, {"credsStore": "test"})
    assert find("token", environ) == Credentials(identity_token="t")
    _write(path, {"auths": {"host": {"auth": _AUTH, "identitytoken": "i"}}})
    credentials = find("host", environ)
    assert credentials is not None
    assert credentials.identity_token == "i"


def test_the_first_file_that_knows_the_registry_is_used(
    environ: dict[str, str], tmp_path: Path
) -> None:
    _write(Path(environ["HOME"], ".docker/config.json"), {"auths": {"host": {"auth": _AUTH}}})
    environ |= {"REGISTRY_AUTH_FILE": str(tmp_path / "auth.json"), "DOCKER_CONFIG": str(tmp_path)}
    environ["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    assert find("host", environ) == Credentials("me", "pass:word")
    for name in ("run/containers/auth.json", "config.json", "auth.json"):
        user = Path(name).parts[0]
        entry = {"username": user, "password": "p"}
        _write(tmp_path / name, {"auths": {"host": entry}})
        assert find("host", environ) == Credentials(user, "p")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config\.json: not readable as JSON"),
        ('{"auths": {"host": {"auth": "?"}}}', r"auths: host: auth is not base64"),
        ('{"credHelpers": {"host": "absent"}}', r"docker-credential-absent get: .*install it"),
    ],
)
def test_mistakes_are_one_line(environ: dict[str, str], text: str, message: str) -> None:
    path = Path(environ["HOME"], ".docker/config.json")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(CredentialsError, match=message) as caught:
        find("host", environ)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "message"),
    [("broken", "no Username and Secret"), ("failing", "status 2: the keyring")],
)
def test_a_failing_helper_is_an_error(environ: dict[str, str], host: str, message: str) -> None:
    _write(Path(environ["HOME"], ".docker/config.json"), {"credHelpers": {host: "test"}})
    with pytest.raises(CredentialsError, match=message):
        find(host, environ)


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(Credentials("me", "secret", "secret"))
