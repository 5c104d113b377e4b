# SPDX-License-Identifier: Apache-2.0
"""Test flags in a real program: values, precedence, import order, errors, help and listings."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.flags import values
from torch_google.flags.registry import option_of, options

_HAS_SEAM = hasattr(torch, "_seam")
_PROGRAM = """
import atexit, json, os, sys
{top}
from absl import app
from torch_google import flags
flags.define()
def main(argv):
    {main}
if __name__ == "__main__":
    atexit.register(lambda: print("torch was there:", "torch" in sys.modules, flush=True))
    app.run(main)
"""


def _run(main: str, *arguments: str, top: str = "", **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(top=top, main=main), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout, done.stderr


_D, _I = "torch._dynamo.config", "torch._inductor.config"
# Columns: flag, config module, entry, value.
_TABLE: list[tuple[str, str, str, Any]] = [
    ("--torch_dynamo_recompile_limit=3", _D, "recompile_limit", 3),
    ("--torch_dynamo_suppress_errors", _D, "suppress_errors", True),
    ("--notorch_dynamo_capture_func_transforms", _D, "capture_func_transforms", False),
    ("--torch_dynamo_dynamo_profiler=out.prof", _D, "dynamo_profiler", "out.prof"),
    ("--torch_dynamo_numpy_default_float=float32", _D, "numpy_default_float", "float32"),
    ("--torch_dynamo_log_file_name=a.log", _D, "log_file_name", "a.log"),
    ("--torch_inductor_triton_cudagraphs", _I, "triton.cudagraphs", True),
    ("--notorch_inductor_fx_graph_remote_cache", _I, "fx_graph_remote_cache", False),
    ("--torch_inductor_bundle_triton_into_fx_graph_cache=None", _I,
     "bundle_triton_into_fx_graph_cache", None),
    ("--torch_inductor_compile_threads=7", _I, "compile_threads", 7),
    ("--torch_inductor_max_autotune_gemm_search_space=EXHAUSTIVE", _I,
     "max_autotune_gemm_search_space", "EXHAUSTIVE"),
    ("--torch_inductor_multi_kernel_hints=[64, 256]", _I, "multi_kernel_hints", [64, 256]),
    ("--torch_inductor_custom_should_partition_ops=['a::b']", _I,
     "custom_should_partition_ops", ["a::b"]),
    ('--torch_inductor_triton_debug_dump_kernel_inputs={"k": 1}', _I,
     "triton.debug_dump_kernel_inputs", {"k": 1}),
    ("--torch_inductor_comms_reorder_iterative_peak_memory_budget=0.5",
     "torch._inductor.config_comms", "reorder_iterative_peak_memory_budget", 0.5),
    ("--torch_functorch_max_dist_from_bw=5", "torch._functorch.config", "max_dist_from_bw", 5),
    ("--torch_fx_experimental_translation_validation",
     "torch.fx.experimental._config", "translation_validation", True),
    ("--torch_compiler_job_id=a", "torch.compiler.config", "job_id", "a"),
    ("--torch_distributed_use_torchcomms", "torch.distributed.config", "use_torchcomms", True),
    ("--torch_utils_serialization_save_storage_alignment=128",
     "torch.utils.serialization.config", "save.storage_alignment", 128),
]  # fmt: skip
_READ = """
    import importlib, threading, torch
    def read():
        return [importlib.import_module(m)._get_dict()[n] for m, n in json.loads({entries!r})]
    seen = [read()]
    thread = threading.Thread(target=lambda: seen.append(read()))
    thread.start()
    thread.join()
    print(json.dumps(seen), os.environ["TORCHINDUCTOR_CACHE_DIR"])
"""


@pytest.fixture(
    scope="module", name="readings", params=["", "import torch, torch._inductor.config"]
)
def _readings(request: pytest.FixtureRequest) -> tuple[list[Any], list[Any], str]:
    entries = json.dumps([(module, name) for _, module, name, _ in _TABLE])
    status, out, error = _run(
        _READ.strip().format(entries=entries),
        *(flag for flag, *_ in _TABLE),
        "--torchinductor_cache_dir=/somewhere",
        top=request.param,
    )
    assert status == 0, error
    lists, _, directory = out.splitlines()[0].rpartition(" ")
    assert directory == "/somewhere"
    here, thread = json.loads(lists)
    if request.param:
        assert "may have read the environment: --torchinductor_cache_dir." in error
    else:
        assert "may have read the environment" not in error
    return here, thread, request.param


@pytest.mark.parametrize("row", range(len(_TABLE)), ids=[flag for flag, *_ in _TABLE])
def test_a_flag_is_the_value_before_and_after_the_import(
    readings: tuple[list[Any], list[Any], str], row: int
) -> None:
    here, thread, _ = readings
    value = _TABLE[row][-1]
    assert here[row] == value
    assert thread[row] == value


@pytest.fixture(name="fresh")
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let a test reinstall config modules, then restore the original ones."""
    importlib.import_module(_I)
    importlib.import_module("torch.distributed.config")
    before = {name: sys.modules[name] for name in (_I, _D, "torch.distributed.config")}
    monkeypatch.delenv(values.VARIABLE, raising=False)
    yield monkeypatch
    for name, module in before.items():
        sys.modules[name] = module
        package, _, last = name.rpartition(".")
        setattr(sys.modules[package], last, module)


def _installed(module: str) -> Any:
    sys.modules.pop(module, None)
    config = importlib.import_module(module)
    if not (_HAS_SEAM and torch._seam.configs.installed.replaced):
        values.settle(config)  # without the hook, this happens at the end of `import torch`
    return config


_FORCE = (_I, "fx_graph_cache", "TORCHINDUCTOR_FX_GRAPH_CACHE", True)
_DEFAULT = ("torch.distributed.config", "use_torchcomms", "TORCH_DISTRIBUTED_USE_TORCHCOMMS", False)
_IN_EXPRESSION = (_I, "inplace_padding", "TORCHINDUCTOR_INPLACE_PADDING", True)
_NONE = (_D, "capture_func_transforms", None, True)


@pytest.mark.parametrize(
    ("entry", "code_wins"),
    [(_FORCE, False), (_DEFAULT, True), (_IN_EXPRESSION, True), (_NONE, True)],
    ids=["env_name_force", "env_name_default", "environment in the default", "no name"],
)
def test_precedence(
    fresh: pytest.MonkeyPatch, entry: tuple[str, str, str | None, bool], code_wins: bool
) -> None:
    module, name, variable, default = entry
    (flag,) = (f for f in map(option_of, _flags_of(module)) if f and f.name == name)
    assert getattr(_installed(module), name) is default
    if variable:
        fresh.setenv(variable, str(int(not default)))
        assert getattr(_installed(module), name) is (not default)
    for value in (default, not default):  # try a value that differs from the variable's
        fresh.setenv(values.VARIABLE, json.dumps({flag.flag: str(value)}))
        config = _installed(module)
        assert getattr(config, name) is value
        setattr(config, name, not value)
        assert getattr(config, name) is (not value if code_wins else value)


def _flags_of(module: str) -> list[str]:
    return [option.flag for option in options() if option.module == module]


def test_an_entry_that_this_torch_has_not(fresh: pytest.MonkeyPatch) -> None:
    config = _installed(_D)
    del config._config["recompile_limit"]
    fresh.setenv(values.VARIABLE, json.dumps({"torch_dynamo_recompile_limit": "3"}))
    with pytest.raises(ValueError, match="--torch_dynamo_recompile_limit: this torch has no"):
        values.settle(config)


def test_a_list_read_before_is_set_after(fresh: pytest.MonkeyPatch) -> None:
    config = _installed(_I)
    assert config.multi_kernel_hints == []
    fresh.setenv(values.VARIABLE, json.dumps({"torch_inductor_multi_kernel_hints": "[8]"}))
    values.settle(config)
    assert config.multi_kernel_hints == [8]
    readings: list[Any] = []
    thread = threading.Thread(target=lambda: readings.append(config.multi_kernel_hints))
    thread.start()
    thread.join()
    assert readings == [[8]]


def test_a_variable_that_is_not_ours_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("{", "[]", '{"a": 1}'):
        monkeypatch.setenv(values.VARIABLE, text)
        with pytest.raises(ValueError, match=values.VARIABLE):
            values.flag_texts()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--torch_dynamo_recompile_limit=many", "'many' is not int"),
        ("--torch_dynamo_recompile_limt=3", "Did you mean: torch_dynamo_recompile_limit"),
        *(
            pytest.param(argument, message, marks=pytest.mark.full)
            for argument, message in (
                ("--torch_inductor_max_autotune_gemm_search_space=ALL", "is not Literal['DEFAULT'"),
                ("--torch_inductor_multi_kernel_hints=['a']", "is not list[int]"),
                ("--torch_justknobs=a", "'a' is not NAME=VALUE"),
                ("--torch_flags_show=some", "'some' is not 'all'"),
                ("--torch_dynamo_no_such_option", "Unknown command line flag"),
            )
        ),
    ],
)
def test_a_wrong_flag_is_an_error_before_torch_is_imported(argument: str, message: str) -> None:
    status, out, error = _run("import torch", argument)
    assert status == 1
    assert message in error
    assert out == "torch was there: False\n"


def test_help_is_readable_and_by_module() -> None:
    status, out, error = _run("import torch", "--helpfull")
    assert status == 1, error  # Abseil programs exit with status 1 after help
    assert "torch was there: False" in out
    for module in (_D, _I, "torch.compiler.config", "torch (environment)", "torch_google.flags"):
        assert f"\n{module}:\n" in out
    text = " ".join(out.split())
    assert "--torch_dynamo_recompile_limit: int; torch's default: " in text
    assert "--[no]torch_inductor_triton_cudagraphs: bool; torch's default: False" in text
    assert "--torch_logs: Sets TORCH_LOGS; read by Python code" in text
    assert torch.__spec__ is not None
    loader: Any = torch.__spec__.loader
    source = loader.get_data(str(Path(torch.__file__).with_name("_dynamo") / "config.py")).decode()
    lines = source.splitlines()
    comment = lines[lines.index("minimum_call_count = 1") - 1]
    assert comment.startswith("# ")
    assert comment.removeprefix("# ") in text  # the help contains the comment from torch's source
    assert "@compile_ignored" not in text


def test_the_list_of_what_is_set() -> None:
    status, out, error = _run(
        "raise AssertionError",
        "--torch_flags_show",
        "--torch_dynamo_recompile_limit=3",
        "--torch_distributed_debug=INFO",
        "--torchinductor_inplace_padding=0",
        TORCHINDUCTOR_MAX_AUTOTUNE="1",
        TORCH_SHOW_CPP_STACKTRACES="1",
    )
    assert status == 0, error
    mine = [line for line in out.splitlines() if line.startswith("--")]
    assert {
        "--torch_dynamo_recompile_limit=3  (flag)",
        "--torch_inductor_max_autotune=True  (environment TORCHINDUCTOR_MAX_AUTOTUNE)",
        "--torch_inductor_inplace_padding=False  (flag --torchinductor_inplace_padding)",
        "--torch_distributed_debug='INFO'  (flag)",
        "--torch_show_cpp_stacktraces='1'  (environment TORCH_SHOW_CPP_STACKTRACES)",
    } <= set(mine)
    assert not [line for line in mine if line.endswith("(default)")]


@pytest.mark.full
def test_the_list_of_everything() -> None:
    status, out, error = _run("raise AssertionError", "--torch_flags_show=all")
    assert status == 0, error
    lines = [line for line in out.splitlines() if line.startswith("--")]
    assert len(lines) > 1200
    assert "--torch_dynamo_recompile_limit=8  (default)" in lines


_LOGS = "import torch, logging; print(logging.getLogger('torch._dynamo').getEffectiveLevel())"


@pytest.mark.parametrize("top", ["", "import torch"], ids=["before", "after"])
def test_torch_logs(top: str) -> None:
    status, out, error = _run(_LOGS, "--torch_logs=+dynamo", top=top)
    assert status == 0, error
    assert out.splitlines()[0] == "10"
    assert "may have read the environment" not in error


_KNOB = (
    "import torch; from torch._utils_internal import justknobs_check as c, "
    "justknobs_getval_int as n; print(c('a'), c('a/b', False), c('z'), n('c'), n('z'))"
)


def test_knobs() -> None:
    if not (_HAS_SEAM and torch._seam.configs.knob.replaced):
        status, _, error = _run(_KNOB, "--torch_justknobs=a=false")
        assert status == 0
        assert "this torch has no hook for knobs" in error
        return
    status, out, error = _run(_KNOB, "--torch_justknobs=a=false,a/b=true,c=7")
    assert status == 0, error
    assert out.splitlines()[0] == "False True True 7 0"


def test_a_knob_flips_an_entry_of_a_config_module(fresh: pytest.MonkeyPatch) -> None:
    if not (_HAS_SEAM and torch._seam.configs.knob.replaced):
        pytest.skip("this torch has no hook for knobs, or none is installed")
    knob = "pytorch/remote_cache:enable_local_fx_graph_cache"
    config = _installed(_I)
    assert config.fx_graph_cache is True
    fresh.setenv(values.VARIABLE, json.dumps({"torch_justknobs": f"{knob}=false"}))
    assert config.fx_graph_cache is False
