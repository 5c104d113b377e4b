# SPDX-License-Identifier: Apache-2.0
"""The settings of an imported project: origins, release names, selected files, pin, patches.

They are stored in third_party/<name>/import.json; README.md has a table of the keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.selection import Selection

STATE = ".import"
SBOM = "third_party/sbom.spdx.json"  # the bill of materials, from all projects' pins
TREE = "tree"  # the default builder; see tools/importer/builders

# A project's name is also the name of its folder and of its Bazel repository.
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_VERSION = r"\d+(?:\.\d+)*(?:[-.]?(?:a|b|rc|post|dev)\d+)?"
_KEYS = (
    "name",
    "pin",
    "series",
    "metadata",
    "origins",
    "tags",
    "labels",
    "include",
    "exclude",
    "move",
    "licence",
    "builder",
)
_SEE = "tools/importer/README.md has the keys"


@dataclass(frozen=True)
class Licence:
    """The expected licence: an SPDX expression or "", and the files that contain its text."""

    expression: str = ""
    files: tuple[str, ...] = ("LICENSE", "NOTICE")


@dataclass(frozen=True)
class Labels:
    """Name patterns of patch series directories: one for releases and one for branch commits."""

    release: str = "{tag}"
    branch: str = "{commit}"


@dataclass(frozen=True)
class Project:
    """An imported project, with absolute paths. `origins` maps origin kinds to their settings."""

    workspace: Path
    name: str
    pin: Path
    series: Path
    metadata: Path
    origins: Mapping[str, Mapping[str, str]]
    tags: str = "v{version}"
    labels: Labels = Labels()
    selection: Selection = field(default_factory=Selection)
    licence: Licence = Licence()
    builder: str = TREE

    @property
    def file(self) -> Path:
        """Return the path of import.json."""
        return self.workspace / "third_party" / self.name / "import.json"

    @property
    def state(self) -> Path:
        """Return the workspace directory that holds the state of unfinished commands."""
        return self.workspace / STATE

    @property
    def distributions(self) -> frozenset[str]:
        """Return this project's names on PyPI, normalized as in the lock files for wheels."""
        names = (
            self.origins.get(kind, {}).get("project", self.name) for kind in ("sdist", "wheel")
        )
        return frozenset(re.sub(r"[-_.]+", "_", name).lower() for name in names)

    def series_of(self, label: str) -> Path:
        """Return the directory of the patch series named `label`."""
        return self.series / label

    def version_of(self, tag: str) -> str | None:
        """Return the version in a release tag; None if `tag` does not name a release."""
        match = re.fullmatch(_tag_expression(self.tags), tag)
        return match[1] if match else None

    def tag_of(self, version: str) -> str:
        """Return upstream's tag for `version`."""
        return self.tags.replace("{version}", version).replace("*", version)

    def label_of(self, pin: Mapping[str, object]) -> str | None:
        """Return the patch series' name for an origin's pin; None if it has no tag or commit."""
        tag, commit, ref = (pin.get(key) for key in ("tag", "commit", "ref"))
        if isinstance(tag, str):
            version = self.version_of(tag) or tag
            return self.labels.release.replace("{tag}", tag).replace("{version}", version)
        if not isinstance(commit, str):
            return None
        branch = str(ref or "").removeprefix("refs/heads/").replace("/", "-")
        branch = "commit" if branch in ("", commit) else branch
        return self.labels.branch.replace("{commit}", commit[:12]).replace("{branch}", branch)


def load_project(workspace: Path, name: str = "torch") -> Project:
    """Read third_party/`name`/import.json. Raises UserError if it is missing or invalid."""
    file = workspace / "third_party" / name / "import.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(project_names(workspace)) or "none"
        raise UserError(
            f"{file}: no such file. Projects that can be imported here: {known}. To add one, run"
            f" `import.py init {name} --origin ORIGIN`"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: {error!r}. Correct the file; {_SEE}") from None
    return parse_project(workspace, name, data)


def check_project_name(name: str) -> None:
    """Raise UserError if `name` cannot be the name of a project."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"'{name}' cannot be the name of a project, a folder of third_party. Use lower-case"
            " letters, digits and _"
        )


def parse_project(workspace: Path, name: str, data: object) -> Project:
    """Return the project that the contents of an import.json describe.

    Raises UserError if `data` is invalid.
    """
    file = workspace / "third_party" / name / "import.json"
    check_project_name(name)
    settings = _Settings(file, data)
    settings.check_keys()
    if settings.text("name", name) != name:
        raise settings.error("name", f"not '{name}', which is its folder")
    project = Project(
        workspace,
        name,
        workspace / settings.path("pin", f"third_party/{name}/pin.json"),
        workspace / settings.path("series", f"patches/{name}"),
        workspace / settings.path("metadata", f"third_party/{name}/METADATA"),
        settings.origins(),
        tags=settings.text("tags", "v{version}"),
        labels=Labels(**settings.texts("labels", ("release", "branch"))),
        selection=Selection(
            settings.globs("include"), settings.globs("exclude"), settings.texts("move")
        ),
        licence=settings.licence(),
        builder=settings.text("builder", TREE),
    )
    if len(re.findall(r"\{version\}|\*", project.tags)) != 1:
        raise settings.error("tags", "not a tag with one {version} or * in it, as in 'v{version}'")
    for key, pattern, known in (
        ("release", project.labels.release, "{tag} {version}"),
        ("branch", project.labels.branch, "{branch} {commit}"),
    ):
        if not any(each in pattern for each in known.split()):
            raise settings.error("labels", f"without one of {known} in '{key}'")
    return project


def project_names(workspace: Path) -> list[str]:
    """Return the names of all imported projects, sorted."""
    return sorted(path.parent.name for path in workspace.glob("third_party/*/import.json"))


def no_project(workspace: Path) -> Project:
    """Return a placeholder for commands that use no project, only the workspace."""
    room = workspace / "third_party"
    return Project(workspace, "", room / "pin.json", workspace / "patches", room / "METADATA", {})


class _Settings:
    """The settings in an import.json, with accessors by type. Errors name the file and the key."""

    def __init__(self, file: Path, data: object) -> None:
        self.file = file
        if not isinstance(data, dict):
            raise UserError(f"{file}: not a JSON object. Correct the file; {_SEE}")
        self.data = data

    def error(self, key: str, fault: str) -> UserError:
        """Return the error for an invalid value of a key."""
        value = json.dumps(self.data.get(key))
        return UserError(f"{self.file}: key '{key}' is {value}, {fault}. Correct it; {_SEE}")

    def check_keys(self) -> None:
        for key in self.data:
            if key not in _KEYS:
                raise UserError(f"{self.file}: no key is called '{key}'. Use: {', '.join(_KEYS)}")

    def text(self, key: str, default: str) -> str:
        value = self.data.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.error(key, "not a text")
        return value

    def path(self, key: str, default: str) -> str:
        value = self.text(key, default)
        if value.startswith("/") or ".." in value.split("/"):
            raise self.error(key, "not a path below the workspace")
        return value

    def globs(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(key, "not a list of globs")
        if any(not each or each.startswith("/") for each in value):
            raise self.error(key, "not a list of globs of paths below the tree, as in 'x/**'")
        return tuple(value)

    def texts(self, key: str, known: tuple[str, ...] = ()) -> dict[str, str]:
        value = self.data.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self.error(key, "not an object of texts")
        for name, text in value.items():
            if known and name not in known:
                raise self.error(key, f"and '{name}' is none of {', '.join(known)}")
            if key == "move" and (not name.endswith("/") or (text and not text.endswith("/"))):
                raise self.error(key, "not an object of folders that end in /, as in {'src/': ''}")
        return value

    def origins(self) -> dict[str, dict[str, str]]:
        value = self.data.get("origins")
        if value is None:
            raise UserError(f"{self.file}: key 'origins' is missing. Add it; {_SEE}")
        if not isinstance(value, dict):
            raise self.error("origins", "not an object")
        for kind, settings in value.items():
            if not isinstance(settings, dict) or not all(
                isinstance(each, str) for each in settings.values()
            ):
                raise self.error("origins", f"and '{kind}' is not an object of texts")
        return value

    def licence(self) -> Licence:
        value = self.data.get("licence", {})
        default = Licence()
        if not isinstance(value, dict) or set(value) - {"expression", "files"}:
            raise self.error("licence", "not an object of 'expression' and 'files'")
        expression, files = value.get("expression", ""), value.get("files", list(default.files))
        if not isinstance(expression, str) or not isinstance(files, list):
            raise self.error("licence", "where 'expression' is a text and 'files' is a list")
        return Licence(expression, tuple(map(str, files)))


def _tag_expression(tags: str) -> str:
    before, mark, after = re.split(r"(\{version\}|\*)", tags, maxsplit=1)
    version = _VERSION if mark == "{version}" else r"\d.*"
    return f"{re.escape(before)}({version}){re.escape(after)}"
