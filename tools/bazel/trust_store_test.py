# SPDX-License-Identifier: Apache-2.0
"""Test the layout of the key store. In the network test, Java itself reads a key store."""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path

import pytest

from tools.bazel import trust_store


def _bundle(path: Path, bodies: list[bytes]) -> dict[str, str]:
    blocks = [
        f"# A name\n-----BEGIN CERTIFICATE-----\n{base64.encodebytes(body).decode()}"
        "-----END CERTIFICATE-----\n"
        for body in bodies
    ]
    path.write_text("".join(blocks))
    return {"SSL_CERT_FILE": str(path)}


def test_reads_every_certificate_of_a_bundle(tmp_path: Path) -> None:
    bodies = [b"\x30" * 100, b"\x31" * 70]
    assert trust_store.certificates(_bundle(tmp_path / "ca.pem", bodies)) == bodies


def test_a_machine_without_a_bundle_trusts_nobody(tmp_path: Path) -> None:
    assert trust_store.certificates({"SSL_CERT_FILE": str(tmp_path / "absent")}) == []


def test_a_broken_bundle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("-----BEGIN CERTIFICATE-----\nAAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(OSError, match=rf"^{path}: a certificate is not base64"):
        trust_store.certificates({"SSL_CERT_FILE": str(path)})


def test_key_store_layout() -> None:
    store = trust_store.key_store([b"first", b"second!"])
    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 2)
    position, certificates = 12, []
    for _ in range(2):
        tag, length = struct.unpack_from(">IH", store, position)
        position += 6 + length + 8
        assert tag == 2
        (length,) = struct.unpack_from(">H", store, position)
        assert store[position + 2 : position + 2 + length] == b"X.509"
        position += 2 + length
        (length,) = struct.unpack_from(">I", store, position)
        certificates.append(store[position + 4 : position + 4 + length])
        position += 4 + length
    assert certificates == [b"first", b"second!"]
    salted = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:position]
    assert store[position:] == hashlib.sha1(salted).digest()
