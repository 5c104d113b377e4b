# SPDX-License-Identifier: Apache-2.0
"""Read the pins of dependencies that have METADATA files: projects, C sources and tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tools.importer.errors import UserError
from tools.importer.metadata.metadata_file import Url, UrlType
from tools.importer.metadata.starlark import constant
from tools.importer.project import TREE, Project, load_project
from tools.importer.tree_pin import TreePin, parse_tree_pin

NEWER_LOCK = "third_party/torch/newer/lock.json"
_BUILDIFIER_REPOSITORY = "bazelbuild/buildtools"


@dataclass(frozen=True)
class Vendored:
    """A dependency. `metadata` is the path of its METADATA file, relative to the workspace.

    `version` is upstream's tag and `release` the package's version (for torch: v2.13.0 and
    2.13.0+cpu). `purls` are package URLs, the main one first. `needs` contains the lock keys of the
    wheels that it requires, and `replaces` those of the wheels that a build replaces with it.
    """

    name: str
    metadata: str
    version: str
    release: str
    urls: tuple[Url, ...]
    purls: tuple[str, ...]
    filename: str
    sha256: str
    local_modifications: str = ""
    source_info: str = ""
    needs: tuple[str, ...] = ()
    replaces: frozenset[str] = frozenset()

    @property
    def download(self) -> str:
        """Return the download URL; empty if it depends on the machine's configuration."""
        archives = (url.value for url in self.urls if url.type is UrlType.ARCHIVE)
        return next(archives, "")


def projects(workspace: Path) -> list[Project]:
    """Return all imported projects, keyed by name. Raises UserError for an invalid import.json."""
    files = sorted(workspace.glob("third_party/*/import.json"))
    return [load_project(workspace, file.parent.name) for file in files]


def of_project(project: Project, pin: Mapping[str, object], needs: tuple[str, ...]) -> Vendored:
    """Return a project at the version in the build's `pin`. Raises UserError for an invalid pin."""
    if project.builder == TREE:
        return _of_tree(project, parse_tree_pin(project.pin, dict(pin)), needs)
    wheel = pin.get("wheel")
    try:
        if not isinstance(wheel, Mapping):
            raise KeyError("wheel")
        tag, commit, release = (str(pin[key]) for key in ("tag", "commit", "version"))
        filename, sha256 = str(wheel["filename"]), str(wheel["sha256"])
    except KeyError as error:
        raise UserError(
            f"{project.pin}: key {error} is missing. See {project.pin.parent / 'README.md'}"
        ) from None
    index = wheel.get("extra_index")
    urls = [Url(UrlType.ARCHIVE, f"{index}/{quote(filename)}")] if index else []
    purls = [_purl("pypi", project.name, release)]
    git = project.origins.get("git", {}).get("url", "")
    if git:
        urls.insert(0, Url(UrlType.GIT, git))
        purls.append(_git_purl(git, project.name, commit))
    series = (project.series_of(tag)).relative_to(project.workspace).as_posix()
    return Vendored(
        name=project.name,
        metadata=project.metadata.relative_to(project.workspace).as_posix(),
        version=tag,
        release=release,
        urls=tuple(urls),
        purls=tuple(purls),
        filename=filename,
        sha256=sha256,
        local_modifications=series,
        source_info=f"Upstream commit {commit}, patched by {series}",
        needs=needs,
        replaces=project.distributions,
    )


def _of_tree(project: Project, pin: TreePin, needs: tuple[str, ...]) -> Vendored:
    """Return a project that uses the `tree` builder, whose pin may name any kind of origin."""
    origin, version = pin.origin, pin.version or pin.tag
    urls: list[Url] = []
    purls: list[str] = []
    if origin.get("kind") in ("sdist", "wheel"):
        purls.append(_purl("pypi", str(origin["project"]), str(origin["version"])))
    git = str(origin.get("url") if origin.get("kind") == "git" else "") or project.origins.get(
        "git", {}
    ).get("url", "")
    if git:
        urls.append(Url(UrlType.GIT, git))
    if git and pin.commit:
        purls.append(_git_purl(git, project.name, pin.commit))
    if origin.get("kind") == "archive":
        urls.append(Url(UrlType.ARCHIVE, str(origin["url"])))
    series = project.series_of(pin.tag).relative_to(project.workspace).as_posix()
    commit = f"commit {pin.commit}" if pin.commit else f"{origin.get('kind')} {version}"
    return Vendored(
        name=project.name,
        metadata=project.metadata.relative_to(project.workspace).as_posix(),
        version=pin.tag,
        release=version,
        urls=tuple(urls),
        purls=tuple(purls or [_purl("generic", project.name, version)]),
        filename=str(origin.get("filename", "")),
        sha256=str(origin.get("sha256", "")),
        local_modifications=series,
        source_info=f"Upstream {commit}, patched by {series}",
        needs=needs,
        replaces=project.distributions,
    )


def c_sources(workspace: Path) -> Iterator[Vendored]:
    """Yield the tarballs in third_party/sources.bzl. Raises UserError if a pin is invalid.

    For a pin without `urls`, or with `integrity` instead of a sha256, Debian's tarball is listed. A
    pin whose folder is not named `NAME-VERSION` must have a `version`.
    """
    file = workspace / "third_party" / "sources.bzl"
    pins = constant(file, "_SOURCES")
    if not isinstance(pins, dict):
        raise UserError(f"{file}: _SOURCES is not a dictionary. See third_party/README.md")
    for name, pin in sorted(pins.items()):
        try:
            version = pin.get("version") or source_version(
                pin["strip_prefix"] if "urls" in pin else pin["debian_strip_prefix"]
            )
            debian = (pin["debian_file"], pin["debian_sha256"])
            known = "urls" in pin and "integrity" not in pin
            url, sha256 = (pin["urls"][0], pin["sha256"]) if known else ("", debian[1])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{file}: '{name}': {error}. See third_party/README.md") from None
        where = f"checksum=sha256:{sha256}"
        if url:
            where += f"&download_url={quote(url, safe='')}"
        yield Vendored(
            name=name,
            metadata=f"third_party/{name}/METADATA",
            version=version,
            release=version,
            urls=(Url(UrlType.ARCHIVE, url),) if url else (),
            purls=(f"{_purl('generic', name, version)}?{where}",),
            filename=url.rpartition("/")[2] or debian[0],
            sha256=sha256,
            source_info="" if debian[1] == sha256 else "Or {} with sha256 {}".format(*debian),
        )


def source_version(folder: str) -> str:
    """Return the version in the name of a tarball's folder. Raises ValueError if there is none.

    SQLite writes 3.40.0 as 3400000, with two digits for each number after the first.
    """
    text = folder.rpartition("-")[2]
    match = re.fullmatch(r"(\d)(\d\d)(\d\d)\d\d", text)
    if match:
        return ".".join(str(int(part)) for part in match.groups())
    if not re.fullmatch(r"\d+(\.\d+)+\w*", text):
        raise ValueError(f"strip_prefix '{folder}' does not end in '-VERSION'")
    return text


def buildifier(workspace: Path) -> Vendored:
    """Return buildifier, the BUILD file formatter. Raises UserError if its pin is incomplete."""
    pin = read_json(workspace / "third_party" / "buildifier" / "pin.json")
    try:
        version, sha256 = str(pin["version"]), str(pin["sha256"])
    except KeyError as error:
        raise UserError(f"third_party/buildifier/pin.json: key {error} is missing") from None
    filename = "buildifier-linux-amd64"
    releases = f"https://github.com/{_BUILDIFIER_REPOSITORY}/releases/download"
    return Vendored(
        name="buildifier",
        metadata="third_party/buildifier/METADATA",
        version=version,
        release=version,
        urls=(Url(UrlType.ARCHIVE, f"{releases}/v{version}/{filename}"),),
        purls=(f"pkg:github/{_BUILDIFIER_REPOSITORY}@v{version}",),
        filename=filename,
        sha256=sha256,
    )


def cuda(workspace: Path) -> Vendored:
    """Return CUDA as one dependency with several wheels. Raises UserError if a key is missing."""
    file = "third_party/cuda/pin.json"
    pin = read_json(workspace / file)
    try:
        version, wheels = str(pin["version"]), pin["wheels"]
        if not isinstance(wheels, Mapping):
            raise KeyError("wheels")
        # Put the runtime wheel first, because programs contain the static runtime from it.
        names = ["runtime", *sorted(name for name in wheels if name != "runtime")]
        purls = [
            _purl("pypi", wheels[name]["distribution"], wheels[name]["version"]) for name in names
        ]
        filename, sha256 = str(wheels["runtime"]["filename"]), str(wheels["runtime"]["sha256"])
    except KeyError as error:
        raise UserError(f"{file}: key {error} is missing. See third_party/cuda/README.md") from None
    return Vendored(
        name="cuda",
        metadata="third_party/cuda/METADATA",
        version=version,
        release=version,
        urls=(),
        purls=tuple(purls),
        filename=filename,
        sha256=sha256,
        source_info="NVIDIA's wheels, of which one tree is made",
    )


def torch_variants(workspace: Path, torch: Vendored) -> dict[str, Vendored]:
    """Return the wheels that some builds use in place of torch's, if they are pinned.

    `torch` is the dependency that they replace; all share a METADATA file. Raises UserError if a
    pin lacks a key.
    """
    variants = {
        "torch-cuda": _torch_variant(workspace, torch, "cuda", "--config=cuda"),
        "torch-newer": _torch_variant(workspace, torch, "newer", "--//third_party/torch:release"),
    }
    return {name: variant for name, variant in variants.items() if variant is not None}


def newer_wheels(workspace: Path) -> dict[str, str]:
    """Map the keys in the lock of torch's newer release to the keys in the bill of materials.

    They differ because the locks of `@pypi` have other versions of the same packages.
    """
    file = workspace / NEWER_LOCK
    if not file.exists():
        return {}
    packages = read_json(file).get("packages")
    if not isinstance(packages, Mapping):
        raise UserError(f"{file}: no 'packages'. Run third_party/torch/newer/update.py")
    return {key: f"torch_newer_{key}" for key in packages}


def _torch_variant(
    workspace: Path, torch: Vendored, directory: str, option: str
) -> Vendored | None:
    """Return the wheel that a folder of third_party/torch pins; None if it pins none.

    `option` is the option of Bazel that selects the wheel.
    """
    file = f"third_party/torch/{directory}/pin.json"
    if not (workspace / file).exists():
        return None
    pin = read_json(workspace / file)
    try:
        tag, commit, release = (str(pin[key]) for key in ("tag", "commit", "version"))
        wheel, requires = pin["wheel"], pin["requires"]
        if not isinstance(wheel, Mapping) or not isinstance(requires, list):
            raise KeyError("wheel")
        filename, sha256 = str(wheel["filename"]), str(wheel["sha256"])
        purl = _purl("pypi", torch.name, str(wheel["version"]))
    except KeyError as error:
        raise UserError(
            f"{file}: key {error} is missing. See third_party/torch/{directory}/README.md"
        ) from None
    git = [url for url in torch.urls if url.type is UrlType.GIT]
    series = f"{Path(torch.local_modifications).parent.as_posix()}/{tag}"
    own = newer_wheels(workspace) if directory == "newer" else {}
    needs = dict.fromkeys([*torch.needs, *map(requirement_key, requires)])
    return replace(
        torch,
        version=tag,
        release=release,
        urls=tuple(git),
        purls=(purl, *(_git_purl(url.value, torch.name, commit) for url in git)),
        filename=filename,
        sha256=sha256,
        local_modifications=series,
        source_info=f"Upstream commit {commit}, patched by {series}; only with {option}",
        needs=tuple(own.get(key, key) for key in needs),
        replaces=frozenset(),
    )


def requirement_key(line: str) -> str:
    """Return the lock key of the package that a requirements line names, or "" if it names none."""
    name = re.match(r"\s*([\w.-]+)", line)
    return lock_key(name[1]) if name else ""


def lock_key(name: str) -> str:
    """Return the key under which the lock files list the package `name`."""
    return re.sub(r"[-_.]+", "_", name).lower()


def clang(workspace: Path) -> Vendored:
    """Return the C and C++ toolchain as one dependency that consists of many Debian packages.

    Raises UserError if its pins are incomplete.
    """
    file = workspace / "third_party" / "clang" / "packages.bzl"
    pins: dict[str, str] = {}
    for table in ("_PROGRAMS", "_LIBRARIES", "_SYSROOT"):
        part = constant(file, table)
        if not isinstance(part, dict):
            raise UserError(f"{file}: {table} is not a dictionary. See third_party/clang/README.md")
        pins.update(part)
    packages = {path.rpartition("/")[2]: sha256 for path, sha256 in pins.items()}
    main = next((name for name in packages if re.match(r"clang-\d+_", name)), None)
    if main is None:
        raise UserError(f"{file}: no package is a clang-N. See third_party/clang/README.md")
    version = main.split("_")[1].partition("-")[0]
    others = sorted(name for name in packages if name != main)
    return Vendored(
        name="clang",
        metadata="third_party/clang/METADATA",
        version=version,
        release=version,
        urls=(),
        purls=tuple(_debian_purl(name, packages[name]) for name in (main, *others)),
        filename=main,
        sha256=packages[main],
        source_info="Packages of Debian 12, unpacked into one tree",
    )


def read_json(file: Path) -> Mapping[str, object]:
    """Read a JSON object. Raises UserError if the file is missing or is not a JSON object."""
    try:
        data = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise UserError(f"{file}:{error.lineno}: {error.msg}. Correct the line") from None
    if not isinstance(data, dict):
        raise UserError(f"{file}: holds a {type(data).__name__}, not an object. Correct it")
    return data


def read_text(file: Path) -> str:
    """Read a text file of the workspace. Raises UserError if it is missing or not UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{file}: no such file. Restore it: `git checkout -- {file}`") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: {error}. Write it as UTF-8") from None


def _git_purl(url: str, name: str, commit: str) -> str:
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?", url)
    if match:
        return f"pkg:github/{match[1].lower()}@{commit}"
    return f"{_purl('generic', name, commit)}?vcs_url={quote('git+' + url, safe='')}"


def _debian_purl(filename: str, sha256: str) -> str:
    name, version, arch = filename.removesuffix(".deb").split("_")
    return f"{_purl('deb/debian', name, version)}?arch={arch}&checksum=sha256:{sha256}"


def _purl(kind: str, name: str, version: str) -> str:
    return f"pkg:{kind}/{quote(name, safe='')}@{quote(version, safe='')}"
