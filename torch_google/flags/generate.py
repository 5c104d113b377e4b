# SPDX-License-Identifier: Apache-2.0
"""Makes the registry of the torch that is there: `./bazelw run //torch_google/flags:generate`."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from absl import app, flags

from torch_google.flags.entries import entries
from torch_google.flags.environment import PATTERN, read_names
from torch_google.flags.registry import RESOURCES

# What calls install_config_module, in one release or another; registry_test.py looks for others.
_KNOWN = (
    "torch._dynamo.config",
    "torch._inductor.config",
    "torch._inductor.config_comms",
    "torch._functorch.config",
    "torch._export.config",
    "torch.fx.experimental._config",
    "torch.distributed.config",
    "torch.compiler.config",
    "torch.utils.serialization.config",
)
_PLACE = Path("torch_google", "flags")

_OUTPUT = flags.DEFINE_string("output", None, "Write to this file; the default is the workspace's.")


def registry() -> str:
    """Return the text of the registry. Takes torch's names out of this process's environment first.

    Raises RuntimeError when torch has read them already.
    """
    if "torch" in sys.modules:
        raise RuntimeError("torch is imported: its options may be this environment's, not its own")
    for name in [name for name in os.environ if PATTERN.fullmatch(name)]:
        del os.environ[name]
    import torch
    from torch._utils_internal import get_file_path

    root = Path(torch.__path__[0])
    return _text(
        {
            "torch": version(),
            "modules": {name: entries(found) for name, found in modules().items()},
            "environment": read_names(root, Path(get_file_path("torch", "lib"))),
        }
    )


def modules() -> dict[str, ModuleType]:
    """Return the config modules of the torch that is there, by name."""
    found = {}
    for name in _KNOWN:
        try:
            found[name] = import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):
                raise
    return found


def version() -> str:
    """Return the release of the torch that is there."""
    return metadata.version("torch").partition("+")[0]


def main(argv: list[str]) -> int:
    """Write the registry."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument: {argv[1]}")
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    place = Path(_OUTPUT.value or workspace / _PLACE / RESOURCES[version()])
    # Reading torch takes seconds and may fail: no file exists until the text is whole.
    replace(place, registry())
    return 0


def replace(place: Path, text: str) -> None:
    """Replace the file at `place` by `text`, atomically. A failure leaves the older file alone."""
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(place)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _text(content: dict[str, Any]) -> str:
    """Write JSON with a line for each fact, so that a change of one is one line."""
    modules = ",\n".join(
        f"    {json.dumps(module)}: {_lines(found, 6)}"
        for module, found in content["modules"].items()
    )
    return (
        f'{{\n  "torch": {json.dumps(content["torch"])},\n'
        f'  "modules": {{\n{modules}\n  }},\n'
        f'  "environment": {_lines(content["environment"], 4)}\n}}\n'
    )


def _lines(facts: dict[str, Any], indent: int) -> str:
    lines = (f"{' ' * indent}{json.dumps(key)}: {json.dumps(fact)}" for key, fact in facts.items())
    return "{\n" + ",\n".join(lines) + f"\n{' ' * (indent - 2)}}}"


if __name__ == "__main__":
    app.run(main)
