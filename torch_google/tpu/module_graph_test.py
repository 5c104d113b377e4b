# SPDX-License-Identifier: Apache-2.0
"""Tests that imports in torch_google/tpu have no cycles, among modules or among subpackages.

All imports count, including those inside functions, those used only for types, and strings that
name a module, as in a table of lazily imported functions.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

_PACKAGE = "torch_google.tpu"
Graph = Mapping[str, set[str]]


def test_no_cycle_among_modules() -> None:
    graph = _module_graph(_sources())
    assert graph[f"{_PACKAGE}.registration"] >= {
        # registration.py refers to miss.py only in a table of strings.
        f"{_PACKAGE}.eager.miss",
        f"{_PACKAGE}.startup",
    }
    assert (
        f"{_PACKAGE}.torch_hooks.fake_tensors" in graph[f"{_PACKAGE}.startup"]
    )  # startup.py imports fake_tensors.py within a function
    assert _cycle(graph) is None


def test_no_cycle_among_rooms() -> None:
    assert _cycle(_room_graph(_module_graph(_sources()))) is None


@pytest.mark.parametrize(
    "line",
    [
        "from torch_google.tpu.high import door",
        "from torch_google.tpu import high",
        "import torch_google.tpu.high.door",
        "def later():\n    from torch_google.tpu.high.door import open",
        "if TYPE_CHECKING:\n    from torch_google.tpu.high.door import Door",
        "TABLE = {'open': 'torch_google.tpu.high.door'}",
    ],
)
def test_a_cycle_is_found_and_printed(line: str) -> None:
    sources = {
        "torch_google.tpu": "",
        "torch_google.tpu.low": "",
        "torch_google.tpu.low.base": line,
        "torch_google.tpu.high": "from torch_google.tpu.high.door import open",
        "torch_google.tpu.high.door": "from torch_google.tpu import _C, low\nlow.base",
    }
    assert _cycle(_module_graph(sources)) is None
    sources["torch_google.tpu.high.door"] = "from torch_google.tpu.low import base"
    cycle = _cycle(_module_graph(sources))
    assert cycle is not None
    assert set(cycle.split(" -> ")) >= {"low.base", "high.door"}
    assert _cycle(_room_graph(_module_graph(sources))) in (
        "low -> high -> low",
        "high -> low -> high",
    )


@functools.cache
def _sources() -> dict[str, str]:
    """Return the source of each module of torch_google.tpu, excluding tests."""
    return dict(_modules(files("torch_google").joinpath("tpu"), _PACKAGE))


def _modules(directory: Traversable, package: str) -> Iterator[tuple[str, str]]:
    for child in directory.iterdir():
        stem = child.name.removesuffix(".py")
        if child.is_dir():
            yield from _modules(child, f"{package}.{child.name}")
        elif child.name == "__init__.py":
            yield package, child.read_text()
        elif child.name.endswith(".py") and not stem.endswith("_test") and stem != "conftest":
            yield f"{package}.{stem}", child.read_text()


def _module_graph(sources: Mapping[str, str]) -> Graph:
    """Map each module to the modules in `sources` that it imports."""
    return {name: set(_imports(name, text, sources)) - {name} for name, text in sources.items()}


def _imports(importer: str, text: str, known: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer}: a relative import. Name the module in full"
            names = [_imported(f"{node.module}.{alias.name}", known) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # In a package's __init__, a string may name one of the package's modules.
            names = [node.value, f"{importer}.{node.value}"]
        else:
            continue
        for name in names:
            if name in known:
                yield name
                # An import from outside a package also runs the package's __init__.
                yield from (p for p in _packages(name) if not f"{importer}.".startswith(f"{p}."))


def _imported(name: str, known: Mapping[str, str]) -> str:
    """Return `name` if it is a module, or else its package."""
    package = name.rpartition(".")[0]
    # `known` lacks the extension module, which has no Python source and imports nothing.
    return name if name in known or name == f"{_PACKAGE}._C" else package


def _packages(module: str) -> list[str]:
    """Return the subpackages of torch_google.tpu that contain `module`, outermost first."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(3, len(parts))]


def _room_graph(graph: Graph) -> Graph:
    """Merge the modules of each subpackage into one node. Top-level modules stay separate nodes."""
    rooms: dict[str, set[str]] = {}
    for name, imported in graph.items():
        rooms.setdefault(_room(name), set()).update(map(_room, imported))
    return {room: imported - {room} for room, imported in rooms.items()}


def _room(module: str) -> str:
    return ".".join(module.split(".")[:3])


def _cycle(graph: Graph) -> str | None:
    """Return a cycle as `a -> b -> a`, with names relative to the package, or None if acyclic."""
    done: set[str] = set()

    def find(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for imported in sorted(graph[name]):
            if (cycle := find(imported, [*path, name])) is not None:
                return cycle
        done.add(name)
        return None

    for name in sorted(graph):
        if (cycle := find(name, [])) is not None:
            return " -> ".join(part.removeprefix(f"{_PACKAGE}.") for part in cycle)
    return None
