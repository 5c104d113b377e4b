# SPDX-License-Identifier: Apache-2.0
"""The harness detects wrong results, states and gradients."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.upstream import agreement, exceptions, modules, optimizers, run
from tests.upstream.exceptions import Entry, Exceptions
from tests.upstream.row import Mismatch, Outcome, Result, Row, Table
from tests.upstream.sweep import Sweep, read


def row(table: Table, name: str, variant: str) -> Row:
    return Row(table, name, torch.float32, variant)


LINEAR = row(Table.MODULES, "nn.Linear", "train")
SGD = row(Table.OPTIMIZERS, "SGD", "single")
ADAM = row(Table.OPTIMIZERS, "Adam", "single")


def wrong_there(function: Any, change: Any) -> Any:
    """Wrap a method of a module. If the module is on tpu, apply `change` to the method's result."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        on_tpu = any(p.device.type == "tpu" for p in self.parameters())
        return change(result) if on_tpu else result

    return call


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x * 1.01, "result: Tensor-likes are not close!"),
        (lambda x: x.double(), "result: torch.float64"),
        (lambda x: x.detach() + 0 * x, "gradient 0: Tensor-likes are not close!"),
        (lambda x: x.cpu(), "result: a tensor is on cpu"),
        (lambda x: x.t().contiguous().t(), "result: strides"),
    ],
)
def test_a_wrong_module_is_found(
    monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    assert modules.run(LINEAR, samples=1).outcome is Outcome.PASSED
    monkeypatch.setattr(nn.Linear, "forward", wrong_there(nn.Linear.forward, change))
    result = modules.run(LINEAR, samples=1)
    assert result.outcome is Outcome.WRONG
    assert message in result.message


def test_a_copy_that_shares_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Linear, "__deepcopy__", lambda self, memo: self, raising=False)
    result = modules.run(LINEAR, samples=1)
    assert (result.outcome, "deepcopy" in result.message or "state" in result.message) == (
        Outcome.WRONG,
        True,
    )


def test_a_wrong_optimizer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert optimizers.run(SGD, samples=1).outcome is Outcome.PASSED
    step = torch.optim.SGD.step

    def wrong(self: torch.optim.SGD, *args: Any) -> Any:
        result = step(self, *args)
        for parameter in self.param_groups[0]["params"]:
            if parameter.device.type == "tpu":
                parameter.data.mul_(1.001)
        return result

    monkeypatch.setattr(torch.optim.SGD, "step", wrong)
    result = optimizers.run(SGD, samples=1)
    assert result.outcome is Outcome.WRONG
    assert result.message.startswith("default: parameter 0: Tensor-likes are not close!")


def test_a_number_that_compiles_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    step = torch.optim.SGD.step

    def compiling(self: torch.optim.SGD, *args: Any) -> Any:
        rate = self.param_groups[0]["lr"]
        torch.ones(int(1e6 * rate) + 1, device="tpu")
        return step(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", compiling)
    result = optimizers.run(SGD, samples=1)
    assert result.message == "default: another lr: 1 programs were compiled"


def test_what_is_not_lowered_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - its name in torch
        if input.device.type == "tpu":
            raise NotImplementedError("tpu: no lowering for aten::linear")
        return nn.functional.linear(input, self.weight, self.bias)

    monkeypatch.setattr(nn.Linear, "forward", forward)
    result = modules.run(LINEAR, samples=1)
    assert result.outcome is Outcome.UNSUPPORTED
    assert "no lowering for aten::linear" in result.message


def test_exceptions_cover_and_become_needless(tmp_path: Path) -> None:
    passed = Result(LINEAR, Outcome.PASSED, 1)
    failed = Result(SGD, Outcome.WRONG, 1, "parameter 0: other")
    known = Exceptions([Entry("SGD float32 *", "for a test")])
    assert known.surprises([passed, failed]) == []
    assert Exceptions([]).surprises([failed]) == [
        "SGD float32 single wrong: parameter 0: other. Fix it, or give the reason in exceptions.json"
    ]
    needless = Exceptions([Entry("nn.Linear float32 train", "for a test")])
    assert needless.surprises([passed]) == [
        "nn.Linear float32 train: passes now. Remove it from exceptions.json"
    ]
    file = tmp_path / "exceptions.json"
    file.write_text(json.dumps([{"rows": "SGD *", "reason": ""}]))
    with pytest.raises(ValueError, match="entry 0: expected rows and reason"):
        exceptions.load(file)


def test_every_exception_names_a_row() -> None:
    rows = [*modules.rows(), *optimizers.rows()]
    for entry in exceptions.load().entries:
        assert any(entry.covers(row) for row in rows), entry


def test_numbers_are_compared_by_their_dtype() -> None:
    one = torch.ones(2, device="tpu")
    agreement.check("it", [one], [torch.ones(2) + 5e-6])
    with pytest.raises(Mismatch, match="it 1: Tensor-likes"):
        agreement.check("it", [one, one], [torch.ones(2), torch.ones(2) + 1e-3])
    with pytest.raises(Mismatch, match="it: 1 results for 2"):
        agreement.check("it", [one], [torch.ones(2)] * 2)


@pytest.mark.full
def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    argv = ["modules", "--names", "nn.ReLU,nn.Tanh", "--dtype", "float32", "--results", str(file)]
    assert run.main(argv) == 0
    once = capsys.readouterr().out
    assert re.fullmatch(
        r"modules: 2 of 2 rows pass \(7 samples\)\n"
        r"  float32: 2 of 2 rows pass \(7 samples\)\n\d+ s of CPU time\n",
        once,
    )
    written = file.read_text()
    assert run.main(argv) == 0  # Every row already has a result.
    again = capsys.readouterr().out
    # Ignore the last line, which contains the run's CPU time.
    assert again.splitlines()[:-1] == once.splitlines()[:-1]
    assert file.read_text() == written
    assert run.main(["modules", "--names", "nn.None"]) == 1
    assert "no row of modules matches --names and --dtype" in capsys.readouterr().err
    assert run.main(["optimizers", "--names", "LBFGS", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "LBFGS float32 single",
        "LBFGS float64 single",
        "LBFGS complex64 single",
    ]


def judged_or_killed(row: Row, samples: int) -> Result:
    if row == SGD:
        os._exit(3)
    return Result(row, Outcome.PASSED if samples == 5 else Outcome.WRONG, samples)


@pytest.mark.full
def test_a_row_that_kills_its_process_is_the_only_one_lost(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    sweep = Sweep(judged_or_killed, 5, str(tmp_path), file)
    expected = [
        Result(LINEAR, Outcome.PASSED, 5),
        Result(SGD, Outcome.CRASHED, 0, "the process ended"),
        Result(ADAM, Outcome.PASSED, 5),
    ]
    assert list(sweep([LINEAR, SGD, ADAM])) == expected
    assert list(read(file, [LINEAR, SGD, ADAM]).values()) == expected
    again = Sweep(judged_or_killed, 4, str(tmp_path), file, again=True)
    assert [result.samples for result in again([LINEAR, SGD, ADAM])] == [5, 0, 5]


def test_what_is_nearer_to_the_truth_than_the_cpu_passes() -> None:
    actual, expected = torch.tensor([1.001], device="tpu"), torch.tensor([1.0])
    agreement.check(
        "it", actual, expected, truth=lambda: torch.tensor([1.0009], dtype=torch.float64)
    )
    with pytest.raises(Mismatch, match="it: Tensor-likes"):
        agreement.check("it", actual, expected, truth=lambda: torch.tensor([1.0001]).double())
    with pytest.raises(Mismatch, match="float64"):
        agreement.check(
            "it", actual.double(), expected, truth=lambda: torch.tensor([1.0009]).double()
        )
