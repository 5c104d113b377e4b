# SPDX-License-Identifier: Apache-2.0
"""torch's C++ log has Abseil's format and obeys TORCH_CPP_LOG_LEVEL.

The tests of torch_google/logging cover how that package handles the log.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

# A program that tries to listen on a port that is in use: C++ logs a warning for each address, and
# then raises an error.
_TAKEN = """
import socket
import torch
dual = socket.has_dualstack_ipv6()
taken = socket.socket(socket.AF_INET6 if dual else socket.AF_INET)
taken.bind(("::" if dual else "", 0))
taken.listen()
try:
    torch.distributed.TCPStore("localhost", taken.getsockname()[1], is_master=True, use_libuv=False)
except RuntimeError as error:
    print("refused")
"""
_LISTENS = """
import torch
torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False, use_libuv=False)
"""
_VERBOSE = """
import _absl, torch
traced = torch.jit.trace(lambda x: (x + x).relu(), torch.ones(2))
_absl.set_module_level("impl", 1)
torch._C._jit_to_static_module(traced.graph)
"""
_LINE = re.compile(r"([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ (\w+)\.cpp:\d+\] (.*)")


def _lines(program: str, level: str | None = None) -> list[tuple[str, str, str]]:
    """Run a program; return (severity, file, text) for each line it logs in Abseil's format."""
    environment = {k: v for k, v in os.environ.items() if k != "TORCH_CPP_LOG_LEVEL"}
    if level is not None:
        environment["TORCH_CPP_LOG_LEVEL"] = level
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    matches = [_LINE.fullmatch(line) for line in done.stderr.splitlines()]
    return [match.groups() for match in matches if match is not None]  # type: ignore[misc]


def test_a_warning_of_cpp_has_abseils_form() -> None:
    lines = _lines(_TAKEN)
    assert ("W", "socket") in [line[:2] for line in lines]
    assert ("E", "socket") in [line[:2] for line in lines]
    assert any("[c10d] The server socket has failed" in text for _, _, text in lines)


@pytest.mark.parametrize(
    ("level", "shown"),
    [(None, "WE"), ("INFO", "WE"), ("WARNING", "WE"), ("ERROR", "E"), ("FATAL", ""), ("3", "")],
)
def test_torchs_variable_is_the_level(level: str | None, shown: str) -> None:
    severities = {severity for severity, file, _ in _lines(_TAKEN, level) if file == "socket"}
    assert severities - {"I"} == set(shown)


def test_information_is_shown_when_it_is_asked_for() -> None:
    # Ignore warnings, which C++ logs if the machine's host name cannot be resolved.
    assert "I" not in {severity for severity, _, _ in _lines(_LISTENS)}
    assert any("has started to listen" in text for _, _, text in _lines(_LISTENS, "INFO"))


def test_a_file_can_be_verbose() -> None:
    assert "impl" in {file for _, file, _ in _lines(_VERBOSE, "INFO")}
