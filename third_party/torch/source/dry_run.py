# SPDX-License-Identifier: Apache-2.0
"""Report which lists in this package must change for another release.

    python -m third_party.torch.source.dry_run DIR       # a checkout with build_variables.bzl
    python -m third_party.torch.source.dry_run DIR --libraries torch/lib/lib{torch_cpu,c10}.so

The script evaluates the overlay, torch_source.BUILD, on the source tree DIR, without Bazel and
without compiling. Every file that the overlay lists and every upstream variable that it loads must
exist, and each configured template must have exactly the variables that the overlay sets. The exit
status is 0 if the overlay matches the tree, 1 if not (each mismatch is printed on a separate line),
and 2 if DIR is not a torch source tree.

Use --libraries for a release whose wheel is available but whose source is not. DIR is then the
source of a release that the overlay matches. The report lists the files in DIR that the libraries
were not compiled from, and the files that only the libraries contain.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from third_party.torch.source import compiled_from

_ROOM = Path(__file__).parent
_VARIABLES = "build_variables.bzl"
# The rules in the overlay (torch_source.BUILD) that compile files.
_COMPILED = ("cc_library", "torch_objects")
_TEMPLATE_VARIABLE = re.compile(r"@(\w+)@|\$\{(\w+)\}|#\s*cmakedefine\s+(\w+)")


class Overlay:
    """The overlay, evaluated on the source tree of a release."""

    def __init__(
        self,
        tree: Path,
        build: Path = _ROOM / "torch_source.BUILD",
        lists: Path = _ROOM / "lists.bzl",
    ) -> None:
        self._tree = tree
        self._build = build
        self._lists = lists
        self.faults: list[str] = []
        self.files: dict[str, list[str]] = {}
        self._rules: list[tuple[str, dict[str, Any]]] = []

    def resolve(self) -> list[str]:
        """Return a line for each mismatch, in the order of the overlay's rules."""
        self._evaluate()
        generated = {str(rule["out"]) for _, rule in self._rules if "out" in rule}
        generated |= {str(rule["header"]) for _, rule in self._rules if "header" in rule}
        for kind, rule in self._rules:
            if kind in _COMPILED:
                files = [str(file) for file in rule.get("srcs", ())]
                self.files[rule["name"]] = files
                for file in [*files, *map(str, rule.get("hdrs", ()))]:
                    if not self._is_there(file, generated):
                        self.faults.append(f"{rule['name']}: {file} is not in the tree")
            elif kind == "configured_header":
                self.faults += self._template(rule)
        self.faults += self._alone()
        return self.faults

    def differences(self, other: compiled_from.Sources) -> list[str]:
        """Return a line for each difference between the overlay's source files and `other`.

        `other` contains the source files that the libraries of a release were compiled from. Call
        `resolve` first.
        """
        compiled = {
            file for files in self.files.values() for file in files if not _is_not_torchs(file)
        }
        names = {PurePosixPath(file).name for file in compiled}
        alone = {f for f in self._starlark(self._lists).get("ALONE", ()) if not other.has(f)}
        return [
            *(f"not compiled: {file}" for file in sorted(compiled) if not other.has(file)),
            *(
                f"new: {file}"
                for file in sorted(other.paths)
                if PurePosixPath(file).name not in names
            ),
            *(f"lists.bzl: ALONE has {file}, which is not compiled" for file in sorted(alone)),
        ]

    def _is_there(self, file: str, generated: set[str]) -> bool:
        if file.startswith((":", "@", "//", "generated/")) or file in generated:
            return True
        return (self._tree / file).is_file()

    def _template(self, rule: dict[str, Any]) -> Iterator[str]:
        template = self._tree / rule["template"]
        if not template.is_file():
            yield f"{rule['name']}: {rule['template']} is not in the tree"
            return
        text = template.read_text(encoding="utf-8")
        variables = {next(filter(None, match)) for match in _TEMPLATE_VARIABLE.findall(text)}
        values = {*rule.get("values", {}), *rule.get("on", ())}
        defined = set(re.findall(r"#\s*cmakedefine\s+(\w+)", text))
        for name in sorted(variables - values - defined):
            yield f"{rule['name']}: the template wants {name}, which has no value"
        for name in sorted(values - variables):
            yield f"{rule['name']}: the template has no {name}, which is set"

    def _alone(self) -> Iterator[str]:
        compiled = {file for files in self.files.values() for file in files}
        for file in self._starlark(self._lists).get("ALONE", ()):
            if file not in compiled:
                yield f"lists.bzl: ALONE has {file}, which no rule compiles"

    def _evaluate(self) -> None:
        scope: dict[str, Any] = {"glob": self._glob}
        for name in ("package", "exports_files", "filegroup", "test_suite"):
            scope[name] = self._rule(name)
        scope["load"] = lambda label, *names: scope.update(self._loaded(label, names))
        code = compile(self._build.read_text(encoding="utf-8"), str(self._build), "exec")
        exec(code, scope)

    def _loaded(self, label: str, names: Sequence[str]) -> dict[str, Any]:
        file = label.rpartition(":")[2]
        if file == _VARIABLES:
            return self._variables(names)
        if file == "version.bzl":
            return {"VERSION": self._version()}
        if file in ("lists.bzl", "settings.bzl"):
            values = self._starlark(self._lists if file == "lists.bzl" else _ROOM / file)
            return {name: values[name] for name in names}
        return {name: self._rule(name) for name in names}

    def _version(self) -> str:
        """Return the release number, without the suffix that a checkout adds (such as `a0`)."""
        text = (self._tree / "version.txt").read_text(encoding="utf-8")
        match = re.match(r"\d+\.\d+\.\d+", text)
        if match is None:
            self.faults.append(
                f"version.txt: '{text.strip()}' does not begin with a release number"
            )
        return match[0] if match else "0.0.0"

    def _variables(self, names: Iterable[str]) -> dict[str, Any]:
        values = self._starlark(self._tree / _VARIABLES)
        for name in names:
            if name not in values:
                self.faults.append(f"{_VARIABLES} has no {name}")
        return {name: values.get(name, []) for name in names}

    @staticmethod
    def _starlark(file: Path) -> dict[str, Any]:
        # The files that this method reads are also valid Python.
        values: dict[str, Any] = {}
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), values)
        return values

    def _rule(self, kind: str) -> Callable[..., None]:
        def declared(*_: object, **attributes: Any) -> None:
            self._rules.append((kind, attributes))

        return declared

    def _glob(self, include: Sequence[str], exclude: Sequence[str] = ()) -> list[str]:
        dropped = {file for pattern in exclude for file in self._tree.glob(pattern)}
        matches = {file for pattern in include for file in self._tree.glob(_files(pattern))}
        return sorted(
            file.relative_to(self._tree).as_posix()
            for file in matches
            if file.is_file() and not any(p in dropped for p in (file, *file.parents))
        )


def _is_not_torchs(file: str) -> bool:
    """Return whether `file` is a Bazel label, or belongs to a project that upstream vendors."""
    return file.startswith((":", "@", "//")) or "third_party/" in file


def _files(pattern: str) -> str:
    """Convert a Bazel glob to a pathlib glob, in which a final `**` does not match files."""
    return f"{pattern}/*" if pattern.endswith("**") else pattern


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="dry_run", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("tree", type=Path, help="source tree of a release of torch")
    parser.add_argument(
        "--libraries",
        type=Path,
        nargs="+",
        default=[],
        metavar="LIBRARY",
        help="the wheel's libraries of another release, to compare with",
    )
    arguments = parser.parse_args(argv)
    tree = arguments.tree
    if not (tree / _VARIABLES).is_file():
        print(
            f"dry_run: {tree} has no {_VARIABLES}. Give the root of a torch source tree",
            file=sys.stderr,
        )
        return 2
    overlay = Overlay(tree)
    faults = overlay.resolve()
    if arguments.libraries:
        try:
            faults = faults + overlay.differences(compiled_from.read(arguments.libraries))
        except (OSError, ValueError) as error:
            print(f"dry_run: {error}. Give the libraries of a torch wheel", file=sys.stderr)
            return 2
    for line in faults:
        print(line)
    for name, files in overlay.files.items():
        print(f"{name}: {len(files)} files", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
