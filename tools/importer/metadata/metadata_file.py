# SPDX-License-Identifier: Apache-2.0
"""A METADATA file, which describes a vendored dependency in the format of Android and google3.

The name, the description, the HOMEPAGE url, `license_type` and `license_note` (an SPDX licence
expression, omitted if there is none) are maintained by hand. The other fields are generated from
the pin and the date of the upgrade.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.metadata.textproto import Field, Message, Symbol, TextprotoError, read, write

UPDATE = "tools/import.py metadata"

_HEADER = f"""\
# Yours to write: name, description, the HOMEPAGE url, license_type and license_note, an SPDX licence
# expression. The other fields come from the pin. After you edit this file or the pin: {UPDATE}

"""
_SEE = "See tools/importer/metadata/README.md for its fields"


class UrlType(enum.Enum):
    """The kinds of URL."""

    HOMEPAGE = "HOMEPAGE"
    GIT = "GIT"
    ARCHIVE = "ARCHIVE"


class LicenseType(enum.Enum):
    """The classes of licences, from the most to the least restrictive."""

    BY_EXCEPTION_ONLY = "BY_EXCEPTION_ONLY"
    RESTRICTED = "RESTRICTED"
    RESTRICTED_IF_STATICALLY_LINKED = "RESTRICTED_IF_STATICALLY_LINKED"
    RECIPROCAL = "RECIPROCAL"
    NOTICE = "NOTICE"
    PERMISSIVE = "PERMISSIVE"
    UNENCUMBERED = "UNENCUMBERED"


@dataclass(frozen=True)
class Url:
    """A `url` block."""

    type: UrlType
    value: str


@dataclass(frozen=True)
class Metadata:
    """The contents of a METADATA file. `local_modifications` is the directory of our patches."""

    name: str
    description: str
    urls: tuple[Url, ...]
    version: str
    last_upgrade: datetime.date
    license_type: LicenseType
    license_note: str = ""
    local_modifications: str = ""

    @property
    def homepage(self) -> str:
        return next((url.value for url in self.urls if url.type is UrlType.HOMEPAGE), "")

    def at(
        self, version: str, urls: tuple[Url, ...], *, modifications: str, today: datetime.date
    ) -> Metadata:
        """Return the metadata updated for a pin. The date changes only if the version does."""
        homepage = tuple(url for url in self.urls if url.type is UrlType.HOMEPAGE)
        return replace(
            self,
            urls=homepage + urls,
            version=version,
            last_upgrade=self.last_upgrade if version == self.version else today,
            local_modifications=modifications,
        )

    def dumps(self) -> bytes:
        """Return the contents of the file. The output is deterministic."""
        return (_HEADER + write(_message(self))).encode()


def load_metadata(file: Path) -> Metadata:
    """Read a METADATA file. Raises UserError if it is missing or invalid."""
    try:
        return loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{file}: no such file. Write one with name, description, a HOMEPAGE url and license_type. "
            f"{_SEE}, then run `{UPDATE}`"
        ) from None
    except TextprotoError as error:
        raise UserError(f"{file}:{error.line}: {error.message}. {_SEE}") from None
    except ValueError as error:
        raise UserError(f"{file}: {error}. {_SEE}") from None


def loads(text: str) -> Metadata:
    """Parse the contents of a METADATA file. Raises ValueError if they are invalid."""
    top = _Fields(read(text), "the file", ("name", "description", "third_party"))
    body = _Fields(top.block("third_party"), "third_party", _THIRD_PARTY)
    urls = tuple(
        Url(UrlType(block.symbol("type")), block.text("value"))
        for block in (_Fields(url, "url", ("type", "value")) for url in body.blocks("url"))
    )
    day = (1970, 1, 1)  # the value for a new file, which has no date yet
    if body.has("last_upgrade_date"):
        date = _Fields(body.block("last_upgrade_date"), "last_upgrade_date", _DATE)
        day = (date.number("year"), date.number("month"), date.number("day"))
    return Metadata(
        name=top.text("name"),
        description=top.text("description"),
        urls=urls,
        version=body.text("version", ""),
        last_upgrade=datetime.date(*day),
        license_type=LicenseType(body.symbol("license_type")),
        license_note=body.text("license_note", ""),
        local_modifications=body.text("local_modifications", ""),
    )


_DATE = ("year", "month", "day")
_THIRD_PARTY = (
    "url",
    "version",
    "last_upgrade_date",
    "license_type",
    "license_note",
    "local_modifications",
)


def _message(data: Metadata) -> Message:
    urls = (
        Field("url", (Field("type", Symbol(url.type.value)), Field("value", url.value)))
        for url in data.urls
    )
    day = data.last_upgrade
    date = (Field("year", day.year), Field("month", day.month), Field("day", day.day))
    optional: Mapping[str, str] = {
        "license_note": data.license_note,
        "local_modifications": data.local_modifications,
    }
    third_party = (
        *urls,
        Field("version", data.version),
        Field("last_upgrade_date", date),
        Field("license_type", Symbol(data.license_type.value)),
        *(Field(name, text) for name, text in optional.items() if text),
    )
    return (
        Field("name", data.name),
        Field("description", data.description),
        Field("third_party", third_party),
    )


class _Fields:
    """The fields of a block, with accessors by type.

    Raises ValueError for a field that is missing, unknown, repeated or of the wrong type.
    """

    def __init__(self, message: Message, where: str, known: tuple[str, ...]) -> None:
        self.message, self.where = message, where
        for field in message:
            if field.name not in known:
                raise ValueError(f"{where} has no field '{field.name}', only {', '.join(known)}")
        for name in {field.name for field in message} - {"url"}:
            if sum(field.name == name for field in message) > 1:
                raise ValueError(f"{where} has '{name}' twice")

    def has(self, name: str) -> bool:
        return any(field.name == name for field in self.message)

    def text(self, name: str, default: str | None = None) -> str:
        for field in self.message:
            if field.name == name:
                if isinstance(field.value, str):
                    return field.value
                raise ValueError(f"'{name}' in {self.where} is not a text in quotes")
        if default is None:
            raise ValueError(f"{self.where} has no '{name}'")
        return default

    def number(self, name: str) -> int:
        for field in self.message:
            if field.name == name and isinstance(field.value, int):
                return field.value
        raise ValueError(f"{self.where} has no number '{name}'")

    def symbol(self, name: str) -> str:
        for field in self.message:
            if field.name == name and isinstance(field.value, Symbol):
                return field.value.name
        raise ValueError(f"{self.where} has no '{name}', a word without quotes")

    def block(self, name: str) -> Message:
        for block in self.blocks(name):
            return block
        raise ValueError(f"{self.where} has no block '{name}'")

    def blocks(self, name: str) -> Iterator[Message]:
        for field in self.message:
            if field.name == name:
                if not isinstance(field.value, tuple):
                    raise ValueError(f"'{name}' in {self.where} is not a block in braces")
                yield field.value
