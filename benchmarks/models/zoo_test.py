# SPDX-License-Identifier: Apache-2.0
"""Test the table of models, using the models that need no library except torch."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from benchmarks.models import agreement, model, zoo
from benchmarks.models.__main__ import chosen
from benchmarks.models.model import Key
from benchmarks.models.torch_program import STEPS, TorchProgram
from benchmarks.models.torchax_program import tied_names
from benchmarks.models.zoo import MODELS, plain


def test_a_duplicate_is_named() -> None:
    with pytest.raises(ValueError, match="torch/dcgan is in the table twice"):
        zoo.table([MODELS["torch/dcgan"], MODELS["torch/dcgan"]])


def test_all_libraries_come_early() -> None:
    first = list(MODELS)[:4]
    assert {name.partition("/")[0] for name in first} == {
        "torch", "torch_geometric", "transformers", "timm"
    }  # fmt: skip


def test_patterns_choose_rows() -> None:
    assert len(list(chosen([]))) == len(MODELS) * len(model.KINDS) * len(model.PROGRAMS)
    keys = [str(key) for key in chosen(["torch/dcgan:train:*", "torch/d[cl]*:infer:fused"])]
    assert keys == [
        "torch/dcgan:infer:fused",
        *(f"torch/dcgan:train:{program}" for program in model.PROGRAMS),
        "torch/dlrm:infer:fused",
    ]
    known = {Key("torch/dcgan", "infer", "fused")}
    assert [str(key) for key in chosen(["torch/d[cl]*:infer:fused"], known)] == [
        "torch/dlrm:infer:fused"
    ]


@pytest.mark.parametrize("row", plain.MODELS, ids=lambda row: row.name)
def test_a_model_trains_and_gives_the_same_results_again(row: model.Model) -> None:
    def results(kind: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        return TorchProgram("torch", row.build(), kind).results()

    train = results(model.TRAIN)
    assert train["losses"].shape == (STEPS,)
    assert train["losses"].isfinite().all()
    assert train["losses"].unique().numel() == STEPS
    strict = dataclasses.replace(row, tolerance=1e-6, update_tolerance=1e-6)
    assert agreement.difference(strict, train, results(model.TRAIN)) == ""
    assert results(model.INFER)["output"].isfinite().all()


def test_a_tied_parameter_has_one_name() -> None:
    module = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    module["b"].weight = module["a"].weight
    assert tied_names(module) == {"b.weight": "a.weight"}
