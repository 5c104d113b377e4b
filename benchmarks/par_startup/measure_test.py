# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

from benchmarks.par_startup import measure, peers, report, starts, wheels
from benchmarks.par_startup.measure import Peer, Sample


def _shell(name: str, script: str, *caches: pathlib.Path, expected: bytes = b"") -> Peer:
    environment = {"PATH": "/usr/bin:/bin"}
    return Peer(name, ("/bin/sh", "-c", script), environment, caches, expected)


def test_children_count_and_sleep_does_not() -> None:
    busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"
    working = measure.start(_shell("child", f"sh -c '{busy}'; true"))
    sleeping = measure.start(_shell("sleep", "sleep 1"))
    assert working.cpu > 0.05
    assert sleeping.cpu < 0.5
    assert sleeping.wall >= 1


def test_of_a_program_with_children_theirs_counts() -> None:
    peer = _shell("parent", "echo hello; echo 1.25 2048", expected=b"hello\n")
    sample = measure.start(dataclasses.replace(peer, children=True))
    assert (sample.cpu, sample.memory) == (1.25, 2.0)
    silent = dataclasses.replace(peer, command=("/bin/sh", "-c", "echo hello"), children=True)
    with pytest.raises(measure.StartError, match="no line of the children's resources"):
        measure.start(silent)


def test_another_answer_or_a_failure_is_an_error() -> None:
    with pytest.raises(measure.StartError, match=r"wrong: .* wrote b'5\\n', expected 0 and b'4"):
        measure.start(_shell("wrong", "echo 5", expected=b"4\n"))
    with pytest.raises(measure.StartError, match="ended with status 3"):
        measure.start(_shell("failed", "exit 3"))


def test_every_round_starts_at_another_peer(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    peers = [_shell(name, f"printf {name} >> {log}") for name in "abc"]
    samples = measure.interleaved(peers, rounds=4)
    assert log.read_text() == "abcbcacababc"
    assert {name: len(taken) for name, taken in samples.items()} == {"a": 4, "b": 4, "c": 4}


def test_first_starts_find_no_cache(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    peer = _shell("a", f"mkdir {cache} && touch {cache}/file", cache)
    measure.interleaved([peer], rounds=3, empty_caches=True)
    with pytest.raises(measure.StartError):
        measure.interleaved([peer], rounds=1)


def test_a_ratio_compares_within_rounds() -> None:
    """Ratios must not change even if the machine is ten times slower in the second round."""
    samples = {
        "venv": [Sample(1, 1.0, 10), Sample(9, 10.0, 10), Sample(1, 1.0, 10)],
        "par": [Sample(1, 0.5, 5), Sample(9, 6.0, 7), Sample(1, 0.6, 6)],
    }
    base, par = measure.summarize(samples, base="venv")
    assert (base.cpu_ratio, base.cpu) == (1.0, 1.0)
    assert par == measure.Summary("par", 1, 0.6, 6, 0.6, 3)


def test_an_interpreter_without_a_task_imports_no_torch(tmp_path: pathlib.Path) -> None:
    interpreter = tmp_path / "program.par"
    interpreter.write_text(
        '#!/bin/sh\nprintf "%s " "$PAR_INTERPRETER" "$@" >>"$PAR_CACHE_DIR.log"\n'
    )
    interpreter.chmod(0o755)
    shop = peers.Workshop(tmp_path / "work", python="python3", requirements=[], index="")
    bare = peers.idle(peers.par(shop, interpreter, "static PAR"))
    assert (bare.name, bare.interpreter) == ("static PAR", True)
    measure.start(bare)
    assert (tmp_path / "work/static_par/cache.log").read_text() == "1 -c pass "


@pytest.mark.parametrize("kind", peers.STARTS)
def test_a_start_runs_the_same_program_in_both(tmp_path: pathlib.Path, kind: str) -> None:
    interpreter = tmp_path / "program"
    interpreter.touch()
    shop = peers.Workshop(tmp_path / "work", python="python3", requirements=[], index="")
    venv = shop.peer("venv", [interpreter, peers.PROGRAM], interpreter=True)
    par, plain = (peers.start(peer, kind) for peer in (peers.par(shop, interpreter), venv))
    module = "benchmarks.par_startup.starts"
    if kind == "door, -c":
        assert par.command == plain.command
        assert (par.command[1], par.environment["PAR_INTERPRETER"]) == ("-c", "1")
    else:
        assert par.environment["PAR_MAIN"] == module
        assert plain.command == (str(interpreter), "-m", module, *par.command[1:])
        assert par.command[1] in starts.KINDS
    assert par.children == plain.children == kind.endswith(("child", "worker"))


def test_starts_print_the_resources_of_their_children(capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-c", "sum(range(100_000))"], check=True)
    starts.print_children()
    assert re.fullmatch(r"[0-9]+\.[0-9]{6} [1-9][0-9]+\n", capsys.readouterr().out)


def test_an_interpreter_says_its_torch(tmp_path: pathlib.Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text('#!/bin/sh\n[ "$2" != pass ] && echo "$1" && exit "$STATUS"\n')
    interpreter.chmod(0o755)
    peer = Peer("venv", (str(interpreter), "program.py"), {"STATUS": "0"}, interpreter=True)
    assert peers.torch_release(peer) == "-c"
    broken = dataclasses.replace(peer, environment={"STATUS": "7"})
    with pytest.raises(peers.BuildError, match="import torch.* ended with status 7"):
        peers.torch_release(broken)


def test_the_venv_of_another_release_is_built_apart(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(shop: peers.Workshop, *command: object, **environment: str) -> None:
        ran.append(" ".join(str(word) for word in command))

    monkeypatch.setattr(peers.Workshop, "run", run)
    shop = peers.Workshop(tmp_path, python="python3", requirements=["torch==1"], index="")
    monkeypatch.setattr(wheels, "requirements", lambda release: [f"torch=={release}"])
    peer = peers.venv_of(shop, "2.6.0+cpu")
    assert peer.name == "venv, torch 2.6.0+cpu"
    assert peer.command[0].startswith(f"{tmp_path}/torch_2_6_0_cpu/")
    assert len([line for line in ran if "torch==2.6.0+cpu" in line]) == 2
    assert not [line for line in ran if "torch==1" in line]


def test_tables_for_people_and_for_programs() -> None:
    row = measure.Summary("par", wall=1.0, cpu=0.654, memory=123.4, cpu_ratio=0.605, rounds=7)
    text = report.markdown("Warm start", [row], base="venv")
    assert text.startswith("Warm start (medians of 7 interleaved rounds)\n")
    assert "| CPU / venv |" in text
    assert "| par | 0.65 | 0.60 | 1.00 | 123 |" in text
    precise = report.markdown("Start without torch", [row], base="venv", places=3)
    assert "| par | 0.654 | 0.60 | 1.000 | 123 |" in precise
    table = report.starts({"spawn child": [row]}, base="venv")
    assert table.startswith("Starts through a door and as a child (medians of 7 interleaved")
    assert "| spawn child | par | 0.65 | 0.60 | 123 |" in table
    (figure,) = report.figures("Warm start", [row], base="venv")
    assert (figure.case, figure.subject, figure.peer) == ("Warm start", "par", "venv")
    assert (figure.cpu_seconds, figure.cpu_ratio, figure.runs) == (0.654, 0.605, 7)
