# SPDX-License-Identifier: Apache-2.0
"""Format records as Abseil's lines and JSON, with rank, process, compilation and artifact."""

from __future__ import annotations

import json
import logging
import re
import sys
from types import SimpleNamespace

import pytest
import torch._logging
from absl import flags
from absl.logging import get_absl_log_prefix
from hypothesis import given
from hypothesis import strategies as st

from torch_google.logging import formats
from torch_google.logging.formats import JsonFormatter, TextFormatter

_PREFIX = r"W\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ train\.py:12\] "


@pytest.fixture(autouse=True)
def _parsed() -> None:
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])


def _record(message: str = "slow %s", name: str = "mine", **more: object) -> logging.LogRecord:
    args = ("step",) if "%" in message else None
    record = logging.LogRecord(name, logging.WARNING, "/x/train.py", 12, message, args, None)
    vars(record).update(more)
    return record


@given(
    st.floats(0, 4e9, allow_nan=False),
    st.sampled_from([1, logging.DEBUG, 15, logging.INFO, logging.WARNING, logging.ERROR, 50, 99]),
)
def test_the_prefix_is_abseils(created: float, level: int) -> None:
    record = _record(created=created, levelno=level)
    assert TextFormatter().format(record) == get_absl_log_prefix(record) + "slow step"


def test_text_is_abseils_line() -> None:
    assert re.fullmatch(_PREFIX + "slow step", TextFormatter().format(_record()))


def test_text_says_which_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert re.fullmatch(_PREFIX + r"\[rank 3\] slow step", TextFormatter().format(_record()))


def test_a_rank_that_is_no_number_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    assert formats.rank() is None


def test_text_says_which_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.parent_process", object)
    record = _record(processName="loader-1", process=77)
    assert re.fullmatch(_PREFIX + r"\[loader-1 77\] slow step", TextFormatter().format(record))


def test_text_says_which_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.convert_frame  # the module that starts compilations
    import torch._guards

    context = SimpleNamespace(current_trace_id=lambda: "0/1")
    monkeypatch.setattr(torch._guards, "CompileContext", context)
    assert re.fullmatch(_PREFIX + r"\[0/1\] slow step", TextFormatter().format(_record()))


def test_text_has_the_traceback() -> None:
    try:
        raise ValueError("no such step")
    except ValueError:
        record = _record(exc_info=sys.exc_info())
    lines = TextFormatter().format(record).splitlines()
    assert lines[0].endswith("slow step")
    assert lines[-1] == "ValueError: no such step"


def test_an_artifact_is_named_and_in_its_own_format() -> None:
    logger = torch._logging.getArtifactLogger("torch._dynamo.x", "graph_breaks")
    line = TextFormatter().format(_record("broke", name=logger.name))
    assert re.fullmatch(_PREFIX + r"\[__graph_breaks\] broke", line)


def test_json_is_one_line_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    text = JsonFormatter().format(_record("two\nlines"))
    assert "\n" not in text
    fields = json.loads(text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", fields.pop("time"))
    assert fields.pop("pid") > 0
    assert fields == {
        "severity": "WARNING",
        "message": "two\nlines",
        "logger": "mine",
        "file": "/x/train.py",
        "line": 12,
        "thread": "MainThread",
        "rank": 3,
    }


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


_MALFORMED = [
    ("%d of %d", (1,), "TypeError"),
    ("%d", ("three",), "TypeError"),
    ("100 %", (1,), "ValueError"),
    ("%(step)d", ({"epoch": 1},), "KeyError"),
    ("no placeholder", (1,), "TypeError"),
    ("%s", (_Unprintable(),), "RuntimeError"),
    (_Unprintable(), (), "RuntimeError"),
]


@pytest.mark.parametrize("with_exception", [False, True])
@pytest.mark.parametrize(("message", "arguments", "error"), _MALFORMED)
def test_a_message_that_cannot_be_formatted_is_a_record(
    message: object, arguments: tuple[object, ...], error: str, with_exception: bool
) -> None:
    try:
        raise LookupError("the cause")
    except LookupError:
        exception = sys.exc_info() if with_exception else None
    record = logging.LogRecord("mine", logging.ERROR, "train.py", 12, message, arguments, exception)
    fields = json.loads(JsonFormatter().format(record))
    assert error in fields["message"]
    assert (fields["severity"], fields["line"]) == ("ERROR", 12)
    assert ("exception" in fields) == with_exception
    text = TextFormatter().format(record)
    assert fields["message"] in text.splitlines()[0]
    assert ("LookupError: the cause" in text) == with_exception


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_an_artifact_that_cannot_be_formatted_is_a_record(formatter: logging.Formatter) -> None:
    # This is the only torch artifact that has its own formatter.
    logger = torch._logging.getArtifactLogger("torch.mine", "custom_format_test_artifact")
    text = formatter.format(_record("%d of %d", name=logger.name))
    assert "%d of %d (arguments ('step',): TypeError" in text
