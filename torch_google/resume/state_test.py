# SPDX-License-Identifier: Apache-2.0
"""In a single process, a checkpoint restores a run exactly."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_google import gfile, resume


class _Counter:
    """A Stateful whose state contains no tensors."""

    def __init__(self) -> None:
        self.count = 0
        self.names = ["a"]

    def state_dict(self) -> dict[str, object]:
        return {"count": self.count, "names": self.names}

    def load_state_dict(self, state: dict[str, object]) -> None:
        assert isinstance(state["count"], int)
        assert isinstance(state["names"], list)
        self.count, self.names = state["count"], state["names"]


class _Run:
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.optimizer = torch.optim.AdamW(
            [
                {"params": self.model[0].parameters(), "lr": 0.1},
                {"params": [*self.model[1].parameters(), *self.model[2].parameters()]},
            ],
            weight_decay=0.1,
        )
        self.shuffle = torch.Generator().manual_seed(seed)
        self.counter = _Counter()
        others = {"shuffle": self.shuffle, "counter": self.counter}
        self.state = resume.State(self.model, self.optimizer, others)

    def step(self) -> float:
        rows = torch.rand(8, 3, generator=self.shuffle) + torch.rand(8, 3)
        loss = self.model(rows).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.counter.count += 1
        self.counter.names = [*self.counter.names, "b"]
        return float(loss.item())


@pytest.mark.parametrize("store", ["", "memory://"])
def test_a_run_goes_on_exactly(store: str, tmp_path: Path) -> None:
    directory = f"{store or tmp_path}/run"
    first = _Run(0)
    for _ in range(3):
        first.step()
    first.state.save(3, directory)
    expected = [first.step() for _ in range(3)]
    second = _Run(1)
    assert second.state.load(directory) == 3
    assert (second.counter.count, second.counter.names) == (3, ["a", "b", "b", "b"])
    assert [second.step() for _ in range(3)] == expected
    assert second.optimizer.param_groups[0]["lr"] == 0.1


def test_a_checkpoint_of_fewer_ranks_keeps_the_random_numbers_of_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Run(0).state.save(1, str(tmp_path))
    run = _Run(1)
    before = torch.get_rng_state()
    monkeypatch.setattr("torch_google.resume.state._rank", lambda: 1)
    assert run.state.load(str(tmp_path)) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_a_start_without_a_checkpoint_changes_nothing(tmp_path: Path) -> None:
    run = _Run(0)
    before = torch.get_rng_state()
    assert run.state.load(str(tmp_path / "none")) == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert run.step() == _Run(0).step()


def test_steps_are_saved_every_few_and_at_the_end(tmp_path: Path) -> None:
    run = _Run(0)
    saved = []
    for step in resume.steps(5, run.state, tmp_path, every=2):
        run.step()
        saved.append((step, gfile.Exists(tmp_path / ".metadata")))
    assert saved == [(0, False), (1, False), (2, True), (3, True), (4, True)]
    assert _Run(1).state.load(str(tmp_path)) == 5
    assert list(resume.steps(5, _Run(1).state, tmp_path)) == []


def test_a_signal_in_the_last_step_does_not_preempt(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run = _Run(0)
    for _ in resume.steps(1, run.state, tmp_path):
        run.step()
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_earlier_signal_saves_and_ends_the_process(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run = _Run(0)
    steps = resume.steps(2, run.state, f"{tmp_path}/")
    next(steps)
    run.step()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(resume.Preempted) as raised:
        next(steps)
    assert raised.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert list(resume.steps(2, _Run(1).state, tmp_path)) == [1]


def test_a_negative_number_of_steps_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found total=-1, every=0; expected 0 or more"):
        next(iter(resume.steps(-1, _Run(0).state, tmp_path)))
