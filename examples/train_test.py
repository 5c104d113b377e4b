# SPDX-License-Identifier: Apache-2.0
"""Run the complete program in this process, and test its messages, output files and errors."""

from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest
import torch
from absl import flags
from absl.testing import flagsaver

from examples import model, output, train, training


@pytest.fixture(autouse=True)
def _flags() -> None:
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["train"])


def _main(**values: object) -> int:
    with flagsaver.flagsaver(**values):
        return train.main(["train"])


def _tree(folder: pathlib.Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_it_learns_the_digits_and_leaves_two_files(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert _main(output=str(tmp_path / "new" / "run")) == 0
    assert _tree(tmp_path / "new" / "run") == [output.CHECKPOINT, output.CURVE]
    assert _tree(home) == []

    saved = torch.load(tmp_path / "new" / "run" / output.CHECKPOINT, weights_only=True)
    assert saved["metadata"]["accuracy"] >= 0.97
    assert len(saved["metadata"]["losses"]) == saved["metadata"]["epochs"] == 20
    assert saved["metadata"]["torch"] == torch.__version__
    model.DigitNet().load_state_dict(saved["state_dict"])
    curve = ElementTree.parse(tmp_path / "new" / "run" / output.CURVE)
    assert curve.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(curve.iter("{http://www.w3.org/2000/svg}circle"))) == 20, "a dot for each epoch"

    out, err = capsys.readouterr()
    assert "1797 digits" in out
    assert f"test accuracy {saved['metadata']['accuracy']:.4f}" in out
    assert err == "", "stderr is not a terminal, so it must have no progress bar"


def test_the_same_seed_gives_the_same_weights(tmp_path: pathlib.Path) -> None:
    states = []
    for run, seed in [("a", 1), ("b", 1), ("c", 2)]:
        assert _main(output=str(tmp_path / run), epochs=1, seed=seed) == 0
        saved = torch.load(tmp_path / run / output.CHECKPOINT, weights_only=True)
        states.append(torch.cat([weights.flatten() for weights in saved["state_dict"].values()]))
    assert states[0].equal(states[1])
    assert not states[0].equal(states[2])


def test_an_empty_output_writes_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _main(output="", epochs=1) == 0
    assert _tree(tmp_path) == []


def test_paths_are_relative_to_where_bazel_run_was_typed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ",".join(["0"] * 64 + ["1"])
    (tmp_path / "mine.csv").write_text("\n".join([row] * 10))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert _main(data="mine.csv", output="run", epochs=1) == 0
    assert (tmp_path / "run" / output.CHECKPOINT).is_file()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"data": "/no/such.csv"}, "train: /no/such.csv: cannot be read: No such file"),
        ({"device": "abacus"}, "train: --device=abacus: this program cannot compute there"),
        ({"device": "cuda"}, "train: --device=cuda: this program cannot compute there"),
        ({"device": "meta"}, "train: --device=meta: this program cannot compute there"),
        ({"learning_rate": 1e30}, "train: the loss became "),
        ({"output": "/proc/version/run"}, "train: --output=/proc/version/run: cannot write there"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_1(
    values: dict[str, object], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(**{"output": "", "epochs": 2, **values}) == 1
    err = capsys.readouterr().err
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_a_stray_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["train", "epochs=3"]) == 1
    assert "found the argument 'epochs=3'" in capsys.readouterr().err


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", interrupted)
    assert _main(output="") == 130
    assert capsys.readouterr().err == "train: interrupted; nothing half-written is left.\n"


def test_a_failed_write_keeps_the_previous_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / output.CURVE).write_text("previous")

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "replace", no_room)
    with pytest.raises(output.OutputError, match=r"loss\.svg: cannot be written: No space left"):
        output.write_curve(tmp_path, [1.0, 0.5])
    assert _tree(tmp_path) == [output.CURVE]
    assert (tmp_path / output.CURVE).read_text() == "previous"
