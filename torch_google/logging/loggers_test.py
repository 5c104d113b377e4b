# SPDX-License-Identifier: Apache-2.0
"""torch's loggers propagate to the root with the program's verbosity, whatever torch sets."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from absl import flags
from absl import logging as absl_logging

from torch_google.logging.loggers import (
    LIBRARY_LOGGERS,
    OneStreamLogger,
    adopt_all,
    release_all,
)

FLAGS = flags.FLAGS


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture(name="root")
def _root() -> Iterator[_Collector]:
    if not FLAGS.is_parsed():
        FLAGS(["test"])
    adopt_all()
    collector = _Collector()
    logging.root.addHandler(collector)
    yield collector
    logging.root.removeHandler(collector)
    release_all()
    torch._logging.set_logs()


def _console(logger: logging.Logger) -> list[logging.Handler]:
    # torch v2.15 has its own class of these handlers.
    own = getattr(torch._logging._internal, "_StderrHandler", logging.StreamHandler)
    return [handler for handler in logger.handlers if type(handler) in (logging.StreamHandler, own)]


def test_set_logs_reaches_the_root_and_nothing_else(root: _Collector) -> None:
    torch._logging.set_logs(dynamo=logging.INFO)
    logging.getLogger("torch._dynamo.convert_frame").info("compiling")
    assert root.texts() == ["compiling"]
    for name in torch._logging._internal.log_registry.get_log_qnames():
        assert _console(logging.getLogger(name)) == []


def test_a_level_that_nobody_asked_for_is_torchs_own(root: _Collector) -> None:
    torch._logging.set_logs()
    logging.getLogger("torch._dynamo").info("chatter")
    logging.getLogger("torch._dynamo").warning("news")
    assert root.texts() == ["news"]


@pytest.mark.parametrize(
    ("verbosity", "heard"),
    [(absl_logging.ERROR, ["error"]), (absl_logging.INFO, ["error", "warning", "info"])],
)
def test_one_verbosity(
    root: _Collector, monkeypatch: pytest.MonkeyPatch, verbosity: int, heard: list[str]
) -> None:
    monkeypatch.setattr(FLAGS["verbosity"], "present", 1)
    monkeypatch.setattr(logging.root, "level", absl_logging.converter.absl_to_standard(verbosity))
    torch._logging.set_logs()
    logging.root.manager._clear_cache()  # type: ignore[attr-defined]
    for name in ("torch._inductor", "c10d-NullHandler-default"):
        root.records.clear()
        logger = logging.getLogger(name)
        logger.error("error")
        logger.warning("warning")
        logger.info("info")
        assert root.texts() == heard, name


def test_handlers_of_other_kinds_stay(root: _Collector) -> None:
    own = logging.NullHandler()
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(own)
    adopt_all()
    assert own in logger.handlers
    logger.removeHandler(own)


def test_a_cut_from_the_root_has_no_effect(root: _Collector) -> None:
    logger = logging.getLogger("torch.fx.passes.utils.matcher_utils")
    logger.propagate = False
    logger.warning("through")
    assert root.texts() == ["through"]


def test_released_loggers_are_pythons_again() -> None:
    adopt_all()
    release_all()
    loggers = logging.root.manager.loggerDict.values()
    assert not [logger for logger in loggers if isinstance(logger, OneStreamLogger)]
    torch._logging.set_logs()
    assert len(_console(logging.getLogger("torch"))) == 1


def test_adopted_before_torch_is_imported() -> None:
    script = (
        "import logging, sys\n"
        "from absl import flags; flags.FLAGS(['x'])\n"
        "from torch_google.logging.loggers import adopt_all\n"
        "adopt_all(); assert 'torch' not in sys.modules\n"
        "import torch, torch.fx.passes.utils.matcher_utils, torch.distributed.checkpoint\n"
        "print([n for n, l in logging.root.manager.loggerDict.items() if isinstance(l, logging.Logger)"
        " and (not l.propagate or any(type(h).__name__ in ('StreamHandler', '_StderrHandler')"
        " for h in l.handlers))"
        " and not hasattr(l, 'artifact_name') and n != 'torch.__trace'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_list_has_every_logger_that_torch_cuts_off_when_it_is_imported() -> None:
    """In a process without torch_google, import the torch modules that add console handlers."""
    done = subprocess.run(
        [sys.executable, "-c", _CUT_OFF], capture_output=True, text=True, check=True
    )
    names = set(done.stdout.splitlines())
    assert len(names) > 5
    assert names <= set(LIBRARY_LOGGERS)


_CUT_OFF = """
import importlib, logging
import torch
for name in (
    "_strobelight.cli_function_profiler", "_strobelight.compile_time_profiler",
    "distributed._shard.sharded_tensor.logger", "distributed.c10d_logger",
    "distributed.checkpoint._dedup_tensors", "distributed.checkpoint.logger",
    "distributed.elastic.rendezvous.etcd_rendezvous",
    "distributed.flight_recorder.components.fr_logger",
    "fx.passes.utils.matcher_utils", "fx.passes.utils.source_matcher_utils",
):
    try:
        importlib.import_module(f"torch.{name}")
    except ModuleNotFoundError:
        if torch.__version__ >= (2, 7):  # earlier versions lack some modules
            raise
registered = torch._logging._internal.log_registry.get_log_qnames()
for name, logger in logging.root.manager.loggerDict.items():
    of_torch = name in registered or hasattr(logger, "artifact_name") or name == "torch.__trace"
    if isinstance(logger, logging.Logger) and not logger.propagate and not of_torch:
        print(name)
"""
