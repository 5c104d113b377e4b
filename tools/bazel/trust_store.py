# SPDX-License-Identifier: Apache-2.0
"""Write the host's certificate authorities to a Java key store, for downloads by Bazel's server.

On Debian, a package's install script creates this key store, but a private prefix runs no install
scripts. The format is JKS, which every Java version accepts as `cacerts`. Its layout is documented
in java.base's class sun.security.provider.JavaKeyStore.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

# The bundle of Debian's ca-certificates package, to which update-ca-certificates adds local
# certificate authorities.
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)

_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
# Java's default password, and a constant that is hashed into the digest. The format prescribes
# both.
_PASSWORD, _WHITENER = "changeit", b"Mighty Aphrodite"


def certificates(environment: Mapping[str, str] = os.environ) -> list[bytes]:
    """Return the certificates in $SSL_CERT_FILE, or else in the system's bundle, as DER.

    The list is empty if the file does not exist.
    """
    bundle = Path(environment.get("SSL_CERT_FILE") or _BUNDLE)
    if not bundle.is_file():
        return []
    try:
        return [base64.b64decode(body) for body in _PEM.findall(bundle.read_text(errors="replace"))]
    except binascii.Error as error:
        reason = f"{bundle}: a certificate is not base64 ({error}); repair the file"
        raise OSError(reason) from error


def key_store(certificates: Sequence[bytes]) -> bytes:
    """Return a key store that trusts `certificates`."""
    body = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", _TRUSTED) + _text(f"authority-{number}")
        body += struct.pack(">Q", 0)  # a fixed time, so that the output is deterministic
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1(_PASSWORD.encode("utf-16-be") + _WHITENER + body).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
