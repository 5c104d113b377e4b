# SPDX-License-Identifier: Apache-2.0
"""Generate the installed torch's registry of options.

Run `./bazelw run //torch_google/flags:generate`.
"""

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

# The config modules of all supported releases. registry_test.py fails if one is missing here.
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
_FOLDER = Path("torch_google", "flags")

_OUTPUT = flags.DEFINE_string("output", None, "Write to this file; the default is the workspace's.")


def registry() -> str:
    """Return the registry as JSON text.

    Unsets torch's environment variables in this process, and then imports torch. Raises
    RuntimeError if torch is already imported, because it may have read the variables.
    """
    if "torch" in sys.modules:
        raise RuntimeError("torch is imported: its options may come from the environment")
    for name in [name for name in os.environ if PATTERN.fullmatch(name)]:
        del os.environ[name]
    import torch
    from torch._utils_internal import get_file_path

    root = Path(torch.__path__[0])
    return _text(
        {
            "torch": version(),
            "modules": {name: entries(module) for name, module in modules().items()},
            "environment": read_names(root, Path(get_file_path("torch", "lib"))),
        }
    )


def modules() -> dict[str, ModuleType]:
    """Return the config modules in the installed torch, by name."""
    by_name = {}
    for name in _KNOWN:
        try:
            by_name[name] = import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):
                raise
    return by_name


def version() -> str:
    """Return the release of the installed torch."""
    return metadata.version("torch").partition("+")[0]


def main(argv: list[str]) -> int:
    """Write the registry."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument: {argv[1]}")
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    output = Path(_OUTPUT.value or workspace / _FOLDER / RESOURCES[version()])
    # Generate the text before opening the file, because that takes seconds and may fail.
    replace(output, registry())
    return 0


def replace(path: Path, text: str) -> None:
    """Write `text` to `path` atomically. If that fails, an existing file is left unchanged."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _text(content: dict[str, Any]) -> str:
    """Return JSON with one line per entry, so that a diff shows one line per changed entry."""
    modules = ",\n".join(
        f"    {json.dumps(module)}: {_lines(facts, 6)}"
        for module, facts in content["modules"].items()
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
