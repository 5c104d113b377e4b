# SPDX-License-Identifier: Apache-2.0
"""A registry client: the parts of the OCI distribution specification that a push needs."""

from __future__ import annotations

import base64
import dataclasses
import http.client
import io
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from tools.oci.credentials import Credentials
from tools.oci.descriptor import INDEX, MANIFEST, Descriptor, canonical

_SECONDS = 300  # timeout of a transfer that makes no progress
_TRIES = 4  # number of attempts if a request fails for a temporary reason
_PASSING = frozenset((408, 429, 500, 502, 503, 504))
_TOO_LARGE = 413
_SMALLER = 32 << 20  # chunk size, if a server rejects a whole blob as too large
_REFERENCE = re.compile(
    r"(?P<registry>[a-zA-Z0-9.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)"
    r"/(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
)


class RegistryError(Exception):
    """Raised if a request fails. status: the HTTP status, or 0 if there was no response."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Reference:
    """A reference to an image: REGISTRY/REPOSITORY[:TAG]."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}, expected REGISTRY/REPOSITORY:TAG")
        return cls(match["registry"], match["repository"], match["tag"] or "latest")

    @property
    def is_loopback(self) -> bool:
        host = urllib.parse.urlsplit(f"//{self.registry}").hostname or ""
        return host == "localhost" or host == "::1" or re.match(r"127(\.\d+){3}$", host) is not None


@dataclasses.dataclass(frozen=True)
class Answer:
    """An HTTP response. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Registry:
    """A repository in a registry. The client logs in when the registry requires it.

    http: whether to connect without encryption, as is always done for loopback addresses.
    """

    def __init__(
        self, reference: Reference, credentials: Credentials | None, *, http: bool = False
    ) -> None:
        scheme = "http" if http or reference.is_loopback else "https"
        self._root = f"{scheme}://{reference.registry}"
        self._base = f"{self._root}/v2/{reference.repository}"
        self._reference = reference
        self._credentials = credentials
        self._authorization = ""
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )

    def has_blob(self, descriptor: Descriptor) -> bool:
        """Return whether the registry already has a complete blob."""
        return self._exists(f"{self._base}/blobs/{descriptor.digest}")

    def has_manifest(self, digest: str) -> bool:
        return self._exists(f"{self._base}/manifests/{digest}")

    def _exists(self, url: str) -> bool:
        answer = self._request("HEAD", url, headers={"Accept": f"{MANIFEST}, */*"}, accept=(404,))
        return answer.status == 200

    def push_blob(self, descriptor: Descriptor, path: Path, *, chunk: int = 0) -> None:
        """Send a blob in one request, or in chunks of `chunk` bytes if that is not 0.

        If the server rejects the single request as too large, the blob is sent in chunks.
        """
        if not chunk:
            try:
                with path.open("rb") as stream:
                    self._finish_upload(self._start_upload(), descriptor, stream, descriptor.size)
                return
            except RegistryError as error:
                if error.status != _TOO_LARGE or descriptor.size <= _SMALLER:
                    raise
                chunk = _SMALLER
        location = self._start_upload()
        with path.open("rb") as stream:
            for start in range(0, descriptor.size, chunk):
                data = stream.read(chunk)
                answer = self._request(
                    "PATCH",
                    location,
                    body=data,
                    headers={
                        "Content-Type": "application/octet-stream",
                        "Content-Range": f"{start}-{start + len(data) - 1}",
                    },
                    tries=1,  # no retry: the registry rejects a chunk that it already has
                )
                location = self._location(answer, location)
        self._finish_upload(location, descriptor, io.BytesIO(), 0)

    def _start_upload(self) -> str:
        url = f"{self._base}/blobs/uploads/"
        return self._location(self._request("POST", url, body=b""), url)

    def _finish_upload(
        self, location: str, descriptor: Descriptor, stream: BinaryIO, size: int
    ) -> None:
        separator = "&" if urllib.parse.urlsplit(location).query else "?"
        digest = urllib.parse.quote(descriptor.digest, safe="")
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        url = f"{location}{separator}digest={digest}"
        self._request("PUT", url, body=stream, headers=headers, tries=1)

    @staticmethod
    def _location(answer: Answer, url: str) -> str:
        location = answer.headers.get("location")
        if not location:
            raise RegistryError(f"{url}: the registry's answer names no place for the upload")
        return urllib.parse.urljoin(url, location)

    def push_manifest(self, data: bytes, name: str, media_type: str = MANIFEST) -> Answer:
        """Send a manifest. `name` is a tag or the manifest's digest."""
        url = f"{self._base}/manifests/{name}"
        answer = self._request("PUT", url, body=data, headers={"Content-Type": media_type})
        digest = Descriptor.of(media_type, data).digest
        stored = answer.headers.get("docker-content-digest", digest)
        if stored != digest:
            raise RegistryError(
                f"{url}: the registry stored {stored} and not {digest}: it changes manifests"
            )
        return answer

    def attach(self, descriptor: Descriptor, data: bytes) -> None:
        """Send an attestation's manifest, which names the image as its subject.

        If the registry does not track which manifests refer to a subject, also add this manifest to
        an index of them. As the specification requires, the index's tag is derived from the
        subject's digest.
        """
        answer = self.push_manifest(data, descriptor.digest)
        if "oci-subject" in answer.headers:
            return
        subject = json.loads(data)["subject"]["digest"]
        tag = subject.replace(":", "-")
        url = f"{self._base}/manifests/{tag}"
        answer = self._request("GET", url, headers={"Accept": INDEX}, accept=(404,))
        rows: list[dict[str, Any]] = []
        if answer.status == 200:
            rows = json.loads(answer.body)["manifests"]
        if any(row["digest"] == descriptor.digest for row in rows):
            return
        rows.append(descriptor.json())
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}
        self.push_manifest(canonical(index), tag, INDEX)

    def _request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | BinaryIO | None = None,
        headers: dict[str, str] | None = None,
        accept: tuple[int, ...] = (),
        tries: int = _TRIES,
    ) -> Answer:
        """Send a request, and retry it on temporary failures.

        Return a successful response, or one with a status in `accept`. Raise RegistryError
        otherwise.
        """
        for attempt in range(1, tries + 1):
            answer = self._try(method, url, body, headers or {}, final=attempt == tries)
            if answer is not None and answer.status == 401 and self._log_in(answer):
                if body is not None and not isinstance(body, bytes):
                    body.seek(0)
                answer = self._try(method, url, body, headers or {}, final=attempt == tries)
            if answer is not None and (200 <= answer.status < 300 or answer.status in accept):
                return answer
            passing = answer is None or answer.status in _PASSING
            if answer is not None and (not passing or attempt == tries):
                raise RegistryError(_explain(method, url, answer), answer.status)
            time.sleep(2 ** (attempt - 1))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _try(
        self,
        method: str,
        url: str,
        body: bytes | BinaryIO | None,
        headers: dict[str, str],
        *,
        final: bool,
    ) -> Answer | None:
        """Send a request once. If there is no response, raise if `final`, else return None."""
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        if self._authorization and url.startswith(self._root + "/"):
            # A redirect leads to the registry's storage, which rejects this header.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                return _answer(response)
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error)
        except (OSError, http.client.HTTPException) as error:
            if not final:
                return None
            reason = getattr(error, "reason", error)
            raise RegistryError(
                f"{method} {url}: no answer ({reason}); check the address"
            ) from None

    def _log_in(self, answer: Answer) -> bool:
        """Set the Authorization header that a 401 response demands. Return whether it changed."""
        challenge = answer.headers.get("www-authenticate", "")
        scheme, _, rest = challenge.partition(" ")
        before = self._authorization
        if scheme.lower() == "bearer":
            fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            self._authorization = f"Bearer {self._token(fields)}"
        elif self._credentials and self._credentials.password:
            self._authorization = _basic(self._credentials)
        return self._authorization != before

    def _token(self, fields: dict[str, str]) -> str:
        realm = fields.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise RegistryError(f"{self._root}: found the token server {realm!r}, expected a URL")
        scope = f"repository:{self._reference.repository}:pull,push"
        query = {"service": fields.get("service", ""), "scope": scope}
        known = self._credentials
        headers = {}
        body = None
        url = f"{realm}?{urllib.parse.urlencode(query)}"
        if known and known.identity_token:
            url = realm
            form = {
                **query,
                "client_id": "torch_google",
                "grant_type": "refresh_token",
                "refresh_token": known.identity_token,
            }
            body = urllib.parse.urlencode(form).encode()
        elif known:
            headers["Authorization"] = _basic(known)
        request = urllib.request.Request(url, data=body)
        for name, value in headers.items():
            request.add_unredirected_header(name, value)
        answer = self._send_to_token_server(
            lambda: self._opener.open(request, timeout=_SECONDS), url
        )
        try:
            value = json.loads(answer)
            return str(value.get("token") or value["access_token"])
        except (ValueError, KeyError, AttributeError):
            raise RegistryError(f"{url}: the token server's answer has no token") from None

    def _send_to_token_server(self, send: Callable[[], Any], url: str) -> bytes:
        try:
            with send() as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            with error:
                answer = _answer(error)
            raise RegistryError(_explain("GET", url, answer), answer.status) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise RegistryError(f"{url}: no answer from the token server ({reason})") from None


def _basic(credentials: Credentials) -> str:
    pair = f"{credentials.user}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def _answer(response: Any) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status, headers, response.read())


def _explain(method: str, url: str, answer: Answer) -> str:
    """Return a one-line error that contains the registry's own message."""
    text = http.client.responses.get(answer.status, "")
    try:
        errors = json.loads(answer.body)["errors"]
        text = "; ".join(f"{e.get('code')}: {e.get('message')}" for e in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    advice = ""
    if answer.status in (401, 403):
        advice = "; log in with `docker login`, or check the rights of the account"
    return f"{method} {url}: status {answer.status}: {text}{advice}"


__all__ = ["Reference", "Registry", "RegistryError"]
