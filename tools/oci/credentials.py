# SPDX-License-Identifier: Apache-2.0
"""Find a registry's credentials in the files that docker, podman and skopeo use.

The files are, in this order, $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json,
$XDG_RUNTIME_DIR/containers/auth.json and ~/.docker/config.json. The first file with an entry for
the registry is used. The entry contains the credentials, or the file specifies a helper program,
docker-credential-NAME.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_TOKEN_USER = "<token>"  # the user name that a helper returns with an identity token
_NOT_FOUND = "credentials not found"  # a helper prints this for an unknown registry


class CredentialsError(Exception):
    """Raised if a file is unreadable or a helper program fails."""


@dataclasses.dataclass(frozen=True)
class Credentials:
    """A user and a password, or an identity token for a token server."""

    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    identity_token: str = dataclasses.field(default="", repr=False)


def find(registry: str, environ: Mapping[str, str]) -> Credentials | None:
    """Return the credentials for `registry` (HOST or HOST:PORT), or None if no file has any."""
    for path in _files(environ):
        try:
            config = json.loads(path.read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise CredentialsError(f"{path}: not readable as JSON ({error}); correct it") from None
        credentials = _in_config(config, registry, path, environ)
        if credentials:
            return credentials
    return None


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    places = {
        "REGISTRY_AUTH_FILE": "",
        "DOCKER_CONFIG": "config.json",
        "XDG_RUNTIME_DIR": "containers/auth.json",
        "HOME": ".docker/config.json",
    }
    for variable, below in places.items():
        if environ.get(variable):
            yield Path(environ[variable], below)


def _in_config(
    config: dict[str, Any], registry: str, path: Path, environ: Mapping[str, str]
) -> Credentials | None:
    keys = [registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/"]
    helpers = config.get("credHelpers") or {}
    for key in keys:
        if key in helpers:
            return _ask(helpers[key], key, environ)
    for key in keys:
        entry = (config.get("auths") or {}).get(key)
        if entry:  # docker writes an empty entry if a helper stores the credentials
            return _of_entry(entry, key, path)
    if config.get("credsStore"):
        for key in keys:
            credentials = _ask(config["credsStore"], key, environ)
            if credentials:
                return credentials
    return None


def _of_entry(entry: dict[str, str], key: str, path: Path) -> Credentials:
    user, password = entry.get("username", ""), entry.get("password", "")
    if entry.get("auth"):
        try:
            decoded = base64.b64decode(entry["auth"], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise CredentialsError(
                f"{path}: auths: {key}: auth is not base64 of USER:PASSWORD; log in again"
            ) from None
        user, _, password = decoded.partition(":")
        password = password.rstrip("\0")
    return Credentials(user, password, entry.get("identitytoken", ""))


def _ask(helper: str, key: str, environ: Mapping[str, str]) -> Credentials | None:
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=key,
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CredentialsError(f"{program} get: {error}; install it or log in again") from None
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        if _NOT_FOUND in output:
            return None
        raise CredentialsError(f"{program} get: exit status {done.returncode}: {output}")
    try:
        answer = json.loads(done.stdout)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, KeyError, TypeError):
        raise CredentialsError(f"{program} get: its answer has no Username and Secret") from None
    if user == _TOKEN_USER:
        return Credentials(identity_token=secret)
    return Credentials(user, secret)
