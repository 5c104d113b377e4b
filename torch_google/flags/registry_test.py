# SPDX-License-Identifier: Apache-2.0
"""The committed registry matches the generator's output and covers all of torch's options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.flags.environment import sources
from torch_google.flags.generate import modules
from torch_google.flags.registry import (
    flag_of,
    option_of,
    options,
    resource,
    torch_version,
    variables,
)

_READ = re.compile(r"""(?:getenv|environ\.get|environ\.setdefault)\(\s*["'](TORCH\w+)["']""")
_INSTALLS = re.compile(r"^_?install_config_module\(", re.MULTILINE)


def _sources() -> dict[str, str]:
    return {f"torch.{name}": text for name, text in sources(Path(torch.__path__[0]))}


_SOURCES = _sources()
_MODULES = list(modules())


@pytest.mark.full
def test_the_registry_is_what_the_generator_makes(tmp_path: Path) -> None:
    output = tmp_path / "output.json"
    subprocess.run(
        [sys.executable, "-m", "torch_google.flags.generate", f"--output={output}"],
        check=True,
        env={**os.environ, "TORCHINDUCTOR_MAX_AUTOTUNE": "1"},
    )
    committed = resource().read_text(encoding="utf-8")
    assert output.read_text(encoding="utf-8") == committed, (
        "run: ./bazelw run //torch_google/flags:generate"
    )


def test_a_generator_that_fails_leaves_no_file(tmp_path: Path) -> None:
    program = "import torch; from absl import app; from torch_google.flags import generate"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; app.run(generate.main)", f"--output={tmp_path}/x.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "torch is imported" in done.stderr
    assert [*tmp_path.rglob("*")] == []


def test_it_is_of_this_torch() -> None:
    assert torch_version() == torch.__version__.partition("+")[0]


def test_every_config_module_is_in_it() -> None:
    assert len(_SOURCES) > 1000
    installing = {name for name, text in _SOURCES.items() if _INSTALLS.search(text)}
    of_tests = {name for name in installing if name.startswith("torch.testing.")}
    assert installing - of_tests == set(_MODULES)


@pytest.mark.parametrize("module", _MODULES)
def test_every_entry_has_a_flag_or_a_reason(module: str) -> None:
    config: Any = import_module(module)
    mine = [option for option in options() if option.module == module]
    assert [option.name for option in mine] == list(config._config)
    for option in mine:
        if getattr(config._config[option.name], "alias", None) is not None:
            assert option.left_out
        if not option.left_out:
            assert option_of(option.flag) == option


def test_every_environment_name_that_is_read_is_in_it() -> None:
    read = {name for text in _SOURCES.values() for name in _READ.findall(text)}
    old = torch_version() == "2.6.0"
    assert len(read) > (100 if old else 200)
    flags = {variable.name for variable in variables() if variable.flag}
    assert read <= flags
    assert len([name for name in flags if name.startswith("TORCH")]) >= (181 if old else 222)
    assert {"TORCH_CPP_LOG_LEVEL", "TORCH_SHOW_CPP_STACKTRACES"} <= flags  # read by C++ code


def test_names_do_not_clash() -> None:
    names = [option.flag for option in options() if not option.left_out]
    assert len(names) == len(set(names))
    for variable in variables():
        option = option_of(variable.flag)
        if option is not None:  # an option with the same flag must read this variable
            assert variable.name in option.names


def test_names_of_flags() -> None:
    assert flag_of("torch._inductor.config", "triton.cudagraphs") == (
        "torch_inductor_triton_cudagraphs"
    )
    assert flag_of("torch._inductor.config_comms", "a") == "torch_inductor_comms_a"
    assert flag_of("torch.fx.experimental._config", "b") == "torch_fx_experimental_b"


def test_what_has_no_flag_says_why() -> None:
    reasons = {option.left_out for option in options() if option.left_out}
    assert len({reason.partition(" of ")[0] for reason in reasons}) <= 4
    assert {variable.left_out == "" for variable in variables() if variable.flag} == {True}
