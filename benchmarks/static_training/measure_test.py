# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import gzip
import json
import os
import pathlib
import sys

import pytest
import torch

from benchmarks.static_training import measure, peers, program, report, trainings
from benchmarks.static_training.cases import CASES
from benchmarks.static_training.measure import Peer, Sample

_MADE = {
    "version": "2.6.0",
    "blas": "open",
    "onednn": False,
    "capability": "AVX2",
    "threads_by": "native thread pool",
}


def _shell(name: str, script: str) -> Peer:
    return Peer(name, ("/bin/sh", "-c", script), {"PATH": "/usr/bin:/bin"})


def _sample(cpu: float, wall: float = 1.0) -> Sample:
    return Sample(cpu, wall, 0.25, _MADE)


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "digits.csv"
    path.write_text("".join(f"{','.join(['8'] * 64)},{row % 10}\n" for row in range(40)))
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_training_says_what_it_cost(
    case: str, data: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    threads = torch.get_num_threads()
    try:
        assert program.main([case, "--threads=1", "--count=1", f"--data={data}"]) == 0
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)
    sample = Sample(**json.loads(capsys.readouterr().out))
    assert 0 < sample.cpu < 60
    assert 0 < sample.wall < 600
    assert 0 < sample.loss < 10
    assert sample.made_of["version"] == torch.__version__
    assert sample.made_of["capability"] == torch.backends.cpu.get_cpu_capability()
    assert sample.made_of["blas"] in ("mkl", "open")
    assert sample.made_of["threads_by"] in ("OpenMP", "native thread pool")
    assert sample.made_of["onednn"] is torch.backends.mkldnn.is_available()


def test_onednn_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    enabled: list[bool] = []

    def training(count: int, **options: object) -> trainings.Cost:
        enabled.append(torch._C._get_mkldnn_enabled())
        return trainings.Cost(1.0, 1.0, 1.0)

    monkeypatch.setitem(trainings.TRAININGS, "gpt", training)
    assert program.main(["gpt"]) == 0
    assert program.main(["gpt", "--without-onednn"]) == 0
    assert enabled == [True, False]
    assert torch._C._get_mkldnn_enabled()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["made_of"]["onednn"] is False


def test_the_packed_digits_are_written_for_the_others(tmp_path: pathlib.Path) -> None:
    code = "import sys; from benchmarks.static_training import program; program.main(sys.argv[1:])"
    peer = Peer("PAR", (sys.executable, "-c", code), os.environ)
    target = peers.packed_data(peer, tmp_path / "digits.csv.gz")
    assert len(gzip.decompress(target.read_bytes()).splitlines()) == 1797


def test_another_program_is_no_peer(tmp_path: pathlib.Path) -> None:
    wrong = _shell("PAR", "echo no such option >&2; exit 2")
    with pytest.raises(measure.RunError, match="status 2: no such option. Give --static-par="):
        peers.packed_data(wrong, tmp_path / "digits.csv.gz")
    assert list(tmp_path.iterdir()) == []


def test_every_round_starts_at_another_peer_in_a_fresh_process(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    sample = json.dumps({"cpu": 1, "wall": 1, "loss": 1, "made_of": _MADE})
    script = f"printf %s. $0.$1.$2 >> {log}; nproc >> {log}; echo '{sample}'"
    entrants = [
        Peer(name, ("/bin/sh", "-c", script, name), {"PATH": "/usr/bin:/bin"}) for name in "ab"
    ]
    samples = measure.interleaved("gpt", entrants, threads=1, rounds=2)
    assert log.read_text().split() == [f"{name}.gpt.--threads=1.1" for name in "abba"]
    assert {name: len(taken) for name, taken in samples.items()} == {"a": 2, "b": 2}


def test_a_peer_that_fails_is_an_error() -> None:
    with pytest.raises(measure.RunError, match="venv: .* status 1 and printed: no torch"):
        measure.train(_shell("venv", "echo no torch >&2; exit 1"), "gpt", threads=1)


def test_a_speed_compares_within_rounds() -> None:
    """Speeds must not change even if the machine is ten times slower in the second round."""
    release, static = measure.summarize(
        {
            "venv": [_sample(1.0, 2.0), _sample(10.0, 20.0), _sample(1.0, 2.0)],
            "static PAR": [_sample(2.0, 4.0), _sample(20.0, 40.0), _sample(1.0, 1.0)],
        }
    )
    assert (release.speed, release.wall_speed, release.cpu) == (1.0, 1.0, 1.0)
    assert static == measure.Figure("static PAR", 2.0, 4.0, 0.5, 0.5, 0.25, 3)


def test_lesser_wheels_lack_one_thing_or_both() -> None:
    release = Peer("venv", ("python", "-m", "program"), {"HOME": "/"})
    narrow, without, neither = peers.lesser(release)
    assert narrow.environment == {"HOME": "/", "ATEN_CPU_CAPABILITY": "avx2"}
    assert narrow.command == release.command
    assert without.environment == release.environment
    assert without.command == neither.command == ("python", "-m", "program", "--without-onednn")
    assert neither.environment == narrow.environment
    assert len({release.name, narrow.name, without.name, neither.name}) == 4


def test_tables_for_people_and_for_programs() -> None:
    figure = measure.Figure("static PAR", 0.3, 0.31, 0.85, 0.8, 6.045, 7)
    text = report.markdown(CASES["gpt"], [figure], threads=2)
    assert text.startswith("GPT, 4 layers of 256, batches of 8x128, one step; threads: 2 (medians")
    assert "| static PAR | 300.0 | 0.85 | 310.0 | 0.80 | 6.0450 |" in text
    assert "| static PAR | 2.6.0 | open | no | AVX2 | native thread pool |" in report.makes(
        {"static PAR": _MADE}
    )
    (result,) = report.results(CASES["gpt"], [figure], threads=2)
    assert (result.threads, result.runs, result.cpu_seconds) == (2, 7, 0.3)
    assert (result.cpu_ratio, result.wall_ratio) == (1 / 0.85, 1 / 0.8)
