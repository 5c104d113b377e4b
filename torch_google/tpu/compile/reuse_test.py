# SPDX-License-Identifier: Apache-2.0
"""Identical graphs share programs, even across processes, but only if their options match."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.fx.experimental.proxy_tensor import make_fx

from torch_google.tpu.compile.fingerprint import fingerprint
from torch_google.tpu.compile.options import Options, parse
from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime import compiler


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._functorch.config.patch(enable_autograd_cache=True):
        counters.clear()
        yield


@pytest.mark.skipif(V2_6, reason="v2.6 caches only Inductor's graphs")
@pytest.mark.usefixtures("_cache")
def test_graphs_come_from_the_cache_of_aot_autograd() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).to("tpu")
    x = torch.ones(3, 4, device="tpu")

    def run(**options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        torch._dynamo.reset()
        model.zero_grad()
        torch.manual_seed(1)
        loss = torch.compile(model, backend="tpu", options=options)(x).square().sum()
        loss.backward()
        return loss.detach(), model[0].weight.grad.clone()

    first = run()
    assert counters["aot_autograd"]["autograd_cache_saved"] == 1
    again = run(max_programs=3)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1
    for mine, its in zip(again, first, strict=True):
        assert torch.equal(mine, its)


@pytest.mark.skipif(V2_6, reason="v2.6 caches only Inductor's graphs")
@pytest.mark.usefixtures("_cache")
def test_graphs_with_constants_come_from_the_cache() -> None:
    for _ in range(2):
        torch._dynamo.reset()
        function = torch.compile(lambda x: x + torch.tensor([1.0, 2.0], device=x.device))
        assert function(torch.ones(2, device="tpu")).tolist() == [2, 3]
    assert counters["aot_autograd"]["autograd_cache_saved"] == 1
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@pytest.mark.skipif(V2_6, reason="v2.6 caches only Inductor's graphs")
@pytest.mark.usefixtures("_cache")
def test_symbolic_graphs_come_from_the_cache() -> None:
    for _ in range(2):
        torch._dynamo.reset()
        function = torch.compile(lambda x: x * x.shape[0], dynamic=True)
        for size in (3, 4):
            assert function(torch.ones(size, device="tpu")).tolist() == [size] * size
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


def test_a_fingerprint_tells_graphs_apart_by_operators_and_constants() -> None:
    def graph(scale: float, constant: torch.Tensor) -> torch.fx.GraphModule:
        return make_fx(lambda x: x * scale + constant)(torch.ones(2))

    same = [fingerprint(graph(2.0, torch.ones(2)), "key") for _ in range(2)]
    assert same[0] == same[1]
    others = [
        fingerprint(graph(3.0, torch.ones(2)), "key"),
        fingerprint(graph(2.0, torch.zeros(2)), "key"),
        fingerprint(graph(2.0, torch.ones(2)), "other key"),
    ]
    assert len({same[0], *others}) == 4


def test_options() -> None:
    assert parse(None, None) == Options()
    assert parse("max-autotune", {"donate": False, "precision": "highest"}).precision == "highest"


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("fastest", None, "no mode 'fastest'. Use one of: default, reduce-overhead"),
        (
            None,
            {"fast": 1},
            "no option fast .* Use some of: buckets, donate, max_programs, precision",
        ),
        (None, {"donate": 1}, "option donate=1. Use True or False"),
        (None, {"max_programs": 0}, "option max_programs=0. Use a number of 1 or more"),
        (None, {"precision": "low"}, "option precision='low'. Use one of default, high"),
    ],
)
def test_wrong_options(mode: str | None, options: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(mode, options)


def test_precision_is_that_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    executable = compiler.executable

    def record(name: str, lower: Any, **kwargs: Any) -> Any:
        texts.append(lower().as_text())
        return executable(name, lower, **kwargs)

    x = torch.rand(4, 4, device="tpu")
    monkeypatch.setattr(compiler, "executable", record)
    for precision in ("default", "highest"):
        torch.compile(lambda x: x @ x, backend="tpu", options={"precision": precision})(x)
    assert ["precision = [HIGHEST, HIGHEST]" in text for text in texts] == [False, True]


def test_the_compile_cache_tells_padded_programs_of_other_shapes_apart(tmp_path: Path) -> None:
    torch.tpu.set_compile_cache(tmp_path)
    try:
        # Both shapes have the same number of elements once the first dimension is padded to 8.
        for shape in ((5, 2, 6), (5, 3, 4)):
            torch._dynamo.reset()
            x = torch.randn(shape)
            device_x = x.to("tpu")
            torch._dynamo.mark_dynamic(device_x, 0)
            actual = torch.compile(lambda x: x.softmax(-1))(device_x)
            torch.testing.assert_close(actual.cpu(), x.softmax(-1))
    finally:
        torch.tpu.set_compile_cache(None)


def test_the_compile_cache_tells_programs_with_other_numbers_of_a_size_apart(
    tmp_path: Path,
) -> None:
    torch.tpu.set_compile_cache(tmp_path)
    try:
        functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
            lambda x: x * (x.shape[0] * 2),
            lambda x: x * (x.shape[0] * 3),
        ]
        for function in functions:
            torch._dynamo.reset()
            x = torch.randn(5, 2)
            device_x = x.to("tpu").requires_grad_()
            torch._dynamo.mark_dynamic(device_x, 0)
            torch.compile(function)(device_x).sum().backward()
            assert device_x.grad is not None
            torch.testing.assert_close(device_x.grad.cpu(), function(torch.ones_like(x)))
    finally:
        torch.tpu.set_compile_cache(None)
