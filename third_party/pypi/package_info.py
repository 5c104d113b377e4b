# SPDX-License-Identifier: Apache-2.0
"""Parse a Python distribution's own metadata: PKG-INFO of an sdist, METADATA of a wheel."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Sequence
from dataclasses import dataclass

# SPDX identifiers of common texts in `License` and in classifiers, most specific first.
_LICENCES = (
    (r"apache.*2|^apache( software)?( license)?$", "Apache-2.0"),
    (r"^mit\b|mit license", "MIT"),
    (r"bsd[ -]3|3-clause|new bsd", "BSD-3-Clause"),
    (r"bsd[ -]2|2-clause|simplified bsd", "BSD-2-Clause"),
    (r"mozilla.*2|mpl[- ]2", "MPL-2.0"),
    (r"isc", "ISC"),
    (r"python software foundation|psf", "PSF-2.0"),
)


# The labels of `Project-URL` under which projects state their repository, best first. They are in
# lower case and without spaces, because PyPI ignores case and spaces when it compares labels.
_REPOSITORY_LABELS = ("source", "sourcecode", "repository", "code", "github", "homepage")
_REPOSITORY = re.compile(
    r"https?://(?:www\.)?((?:github\.com|gitlab\.com|codeberg\.org|bitbucket\.org)"
    r"/(?!sponsors/)[\w.-]+/[\w.-]+?)(?:\.git)?(?:[/#?].*)?"
)


@dataclass(frozen=True)
class PackageInfo:
    """A distribution's own metadata. A missing field is "".

    `licence` is an SPDX expression. `repository` is the URL of a git repository on a public
    host, derived from the URL of the repository's web page.
    """

    summary: str = ""
    homepage: str = ""
    licence: str = ""
    repository: str = ""


def parse_package_info(data: bytes) -> PackageInfo:
    """Parse the contents of a PKG-INFO or METADATA file."""
    message = email.parser.BytesHeaderParser().parsebytes(data)
    pages = dict(line.split(", ", 1) for line in message.get_all("Project-URL", []) if ", " in line)
    labeled = {key.lower().replace(" ", ""): url.strip() for key, url in pages.items()}
    homepage = str(message.get("Home-page", "") or "").strip()
    for key in ("homepage", "source", "repository", "sourcecode"):
        homepage = homepage or labeled.get(key, "")
    pages_of_code = [labeled.get(label, "") for label in _REPOSITORY_LABELS] + [homepage]
    repositories = filter(None, map(_REPOSITORY.fullmatch, pages_of_code))
    expression = str(message.get("License-Expression", "") or "").strip()
    statements = [str(message.get("License", "") or ""), *message.get_all("Classifier", [])]
    return PackageInfo(
        " ".join(str(message.get("Summary", "") or "").split()),
        "" if homepage.upper() == "UNKNOWN" else homepage,
        expression or _spdx(statements),
        next((f"https://{match[1]}.git" for match in repositories), ""),
    )


def _spdx(statements: Sequence[str]) -> str:
    for text in statements:
        if text.startswith("Classifier:") or "::" in text:
            if not text.startswith("License ::"):
                continue
            text = text.rpartition(":: ")[2]
        for pattern, name in _LICENCES:
            if len(text) < 100 and re.search(pattern, text.strip(), re.IGNORECASE):
                return name
    return ""
