# SPDX-License-Identifier: Apache-2.0
"""Parse apt's configuration, in both formats, to find the archives that provide Debian packages.

`apt-get indextargets` lists only archives that `apt-get update` has already fetched, so in a new
container it lists none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bazel import command

# Suite names that only Debian archives use, so an archive that serves one of them is Debian's.
_MOVING_SUITES = ("stable", "oldstable", "testing", "unstable", "sid")
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<rest>.+)$")


@dataclass(frozen=True)
class Origin:
    """An archive: its URI, its keyring or key, and whether apt trusts it without a signature."""

    uri: str
    signed_by: str = ""
    trusted: str = ""


@dataclass(frozen=True)
class _Entry:
    origin: Origin
    suites: tuple[str, ...]
    components: tuple[str, ...]


def origins(*, codename: str, etc: Path | None = None) -> list[Origin]:
    """Return the archives that serve `main` for the suite `codename` or one of _MOVING_SUITES."""
    directory = etc or Path("/etc/apt")
    known = {codename, *_MOVING_SUITES} - {""}
    by_uri: dict[str, Origin] = {}
    for entry in _entries(directory):
        if "main" in entry.components and known & set(entry.suites):
            by_uri.setdefault(entry.origin.uri, entry.origin)
    return list(by_uri.values())


def codename(os_release: Path = Path("/etc/os-release")) -> str:
    """Return the release's code name, or "" if it has none, as on Debian testing."""
    if not os_release.exists():
        return ""
    match = re.search(r'^VERSION_CODENAME="?([^"\n]*)', os_release.read_text(), re.MULTILINE)
    return match.group(1) if match else ""


def apt_directory() -> Path:
    """Return apt's configuration directory: /etc/apt unless apt is configured differently."""
    dump = command.run(["apt-config", "dump", "--format", "%F=%v%n", "Dir"], seconds=10)
    values = dict(line.split("=", 1) for line in dump.splitlines() if "=" in line)
    return Path(values.get("Dir") or "/") / values.get("Dir::Etc", "etc/apt")


def stanza(origin: Origin, *, suite: str, sources: bool = False) -> str:
    """Return a deb822 stanza for the binary or source packages in a suite's `main` component."""
    kind, index = ("deb-src", "Sources") if sources else ("deb", "Packages")
    lines = [f"Types: {kind}", f"URIs: {origin.uri}", f"Suites: {suite}", "Components: main"]
    # Fetch only one index; tools such as apt-file may have configured apt to fetch many more.
    lines.append(f"Targets: {index}")
    if origin.signed_by:
        lines.append(f"Signed-By: {origin.signed_by}")
    if origin.trusted:
        lines.append(f"Trusted: {origin.trusted}")
    return "\n".join(lines) + "\n"


def _entries(etc: Path) -> Iterator[_Entry]:
    parts = sorted((etc / "sources.list.d").glob("*"))
    for path in [etc / "sources.list", *parts]:
        if not path.is_file():
            continue
        if path.suffix == ".list":
            yield from _one_line_entries(path.read_text(errors="replace"))
        elif path.suffix == ".sources":
            yield from _deb822_entries(path.read_text(errors="replace"))


def _one_line_entries(text: str) -> Iterator[_Entry]:
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match is None:
            continue
        suite, *components = match["rest"].split()
        pairs = (word.partition("=") for word in (match["options"] or "").split())
        options = {name.lower(): value for name, _, value in pairs}
        origin = Origin(
            match["uri"].rstrip("/"), options.get("signed-by", ""), options.get("trusted", "")
        )
        yield _Entry(origin, (suite,), tuple(components))


def _deb822_entries(text: str) -> Iterator[_Entry]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        # A field continues on lines that start with whitespace. Keep its line breaks, because
        # embedded keys need them.
        fields = {
            name.lower(): value.strip()
            for name, value in re.findall(
                r"^([A-Za-z-]+):((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE
            )
        }
        if (
            fields.get("enabled", "yes").lower() == "no"
            or "deb" not in fields.get("types", "").split()
        ):
            continue
        signed_by = fields.get("signed-by", "")
        if "-----BEGIN" in signed_by:
            signed_by = "\n " + signed_by
        for uri in fields.get("uris", "").split():
            yield _Entry(
                Origin(uri.rstrip("/"), signed_by, fields.get("trusted", "")),
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
            )
