# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from torch.nn import functional

from torch_google.tpu.runtime import compiler
from torch_google.tpu.runtime.precision import roundoff

LEVELS = ["default", "high", "highest"]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the fingerprints and the StableHLO of the programs that a test compiles."""
    modules: list[str] = []
    compile_ = compiler.compiled

    def note(
        name: str, lower: Callable[[], jax.stages.Lowered], *, fingerprint: str, **options: Any
    ) -> Any:
        modules.append(f"{fingerprint}\n{lower().as_text()}")
        return compile_(name, lower, fingerprint=fingerprint, **options)

    monkeypatch.setattr(compiler, "compiled", note)
    return modules


def test_products_are_lowered_with_the_precision(texts: list[str]) -> None:
    x = torch.ones(2, 3).to("tpu")
    for level in LEVELS:
        with torch.tpu.precision(level):
            x @ x.t()
        assert f"precision = [{level.upper()}, {level.upper()}]" in texts[-1]
        assert f"precision {LEVELS.index(level)} " in texts[-1].splitlines()[0]
    assert len(texts) == len(LEVELS)


def test_convolutions_are_lowered_with_the_precision(texts: list[str]) -> None:
    x = torch.rand(1, 1, 5, 5, device="tpu")
    with torch.tpu.precision("high"):
        functional.conv2d(x, x[:, :, :3, :3].contiguous())
    assert any("stablehlo.convolution" in text and "precision HIGH>" in text for text in texts)


def test_a_program_serves_its_own_precision_alone() -> None:
    x = torch.rand(4, 5, device="tpu")

    def compiled_at(level: Any) -> int:
        torch.tpu.reset_metrics()
        with torch.tpu.precision(level):
            x.mm(x.t())
        return torch.tpu.metrics().compiles

    assert [compiled_at(level) for level in LEVELS] == [1, 1, 1]
    assert [compiled_at(level) for level in LEVELS] == [0, 0, 0]


def test_blocks_nest_and_threads_differ() -> None:
    assert torch.tpu.get_precision() == "default"
    elsewhere = []
    with torch.tpu.precision("highest"):
        with torch.tpu.precision("high"):
            assert torch.tpu.get_precision() == "high"
            thread = threading.Thread(target=lambda: elsewhere.append(torch.tpu.get_precision()))
            thread.start()
            thread.join()
        assert torch.tpu.get_precision() == "highest"
        with pytest.raises(ValueError, match="no precision 'best'. Use one of: default, high"):
            torch.tpu.set_precision("best")
    assert elsewhere == ["default"]
    torch.tpu.set_precision("high")
    try:
        assert torch.tpu.get_precision() == "high"
    finally:
        torch.tpu.set_precision("default")


def test_the_backward_pass_has_the_precision_of_the_block(texts: list[str]) -> None:
    x = torch.rand(3, 7, device="tpu", requires_grad=True)
    with torch.tpu.precision("highest"):
        (x @ x.t()).sum().backward()
    products = [text for text in texts if "dot_general" in text]
    assert len(products) >= 2
    assert all("precision = [HIGHEST, HIGHEST]" in text for text in products)


def test_a_compiled_function_has_a_program_for_each_precision(texts: list[str]) -> None:
    torch._dynamo.reset()
    x = torch.ones(2, 13).to("tpu").requires_grad_()
    function = torch.compile(lambda x: (x @ x.t()).sum())
    for level in (*LEVELS, *LEVELS):
        with torch.tpu.precision(level):
            function(x).backward()
    graphs = [text for text in texts if "dot_general" in text]
    assert len(graphs) == 2 * len(LEVELS)  # each level has a forward and a backward program
    for level in LEVELS:
        attribute = f"precision = [{level.upper()}, {level.upper()}]"
        assert sum(attribute in text for text in graphs) == 2
    settled = torch.compile(lambda x: x @ x.t(), options={"precision": "high"})
    with torch.tpu.precision("highest"):
        settled(x.detach())
    assert "precision = [HIGH, HIGH]" in texts[-1]


def test_a_fused_program_has_the_precision_of_each_of_its_operators(texts: list[str]) -> None:
    x = torch.eye(11).to("tpu")
    with torch.tpu.eager_mode("fused"):
        for _ in range(3):
            y = x
            for _ in range(6):  # one product and one sum are too few operators to fuse
                y = y @ x
                with torch.tpu.precision("highest"):
                    y = y @ x
            assert y.sum().item() == 11
            torch.tpu.wait_for_compiles()
    fused = next(text for text in texts if text.startswith("fused"))
    products = [line for line in fused.splitlines() if "dot_general" in line]
    assert ["HIGHEST" in line for line in products] == [False, True] * 6


def test_roundoff_is_that_of_the_dtypes() -> None:
    half, single = (torch.finfo(dtype).eps / 2 for dtype in (torch.bfloat16, torch.float32))
    assert [roundoff("tpu", level) for level in LEVELS] == [half, half**2, single]
    assert [roundoff("cpu", level) for level in LEVELS] == [single] * 3
    assert roundoff("cuda", "default") == roundoff("cuda", "high") == 2.0**-11  # TF32
    assert roundoff("cuda", "highest") == single
    with pytest.raises(ValueError, match="no precision 'low'"):
        roundoff("tpu", "low")
