# SPDX-License-Identifier: Apache-2.0

import re
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import torch_google.tpu
from torch_google.tpu import autoload
from torch_google.tpu.compile import export_stablehlo
from torch_google.tpu.compile.symbolic_export import exported, stablehlo
from torch_google.tpu.release import V2_6


def test_a_function() -> None:
    text = export_stablehlo(lambda x, y: x @ y + 1, (torch.ones(2, 3), torch.ones(3, 4)))
    assert "stablehlo.dot_general" in text
    assert "tensor<2x3xf32>" in text
    assert "tensor<2x4xf32>" in text


def test_the_state_of_a_module_is_its_first_inputs() -> None:
    text = export_stablehlo(nn.Linear(3, 5), (torch.ones(2, 3),))
    main = next(line for line in text.splitlines() if "@main" in line)
    assert "%arg0: tensor<5x3xf32>" in main
    assert "%arg1: tensor<5xf32>" in main
    assert "%arg2: tensor<2x3xf32>" in main


def _inputs(text: str) -> list[str]:
    main = next(line for line in text.splitlines() if "@main" in line)
    return re.findall(r"%arg\d+: (tensor<\S+>)", main)


def test_inputs_that_are_not_used_keep_their_places() -> None:
    model, args = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)).eval(), (torch.ones(2, 3),)
    # The model does not use its last buffer (tensor<i64>), which counts training batches.
    places = ["tensor<5x3xf32>", *["tensor<5xf32>"] * 5, "tensor<i64>", "tensor<2x3xf32>"]
    assert _inputs(export_stablehlo(model, args)) == places
    program = torch.export.export(model, args)
    assert _inputs(export_stablehlo(program, args)) == places
    assert _inputs(stablehlo(program)) == places
    dynamic = torch.export.export(model, args, dynamic_shapes=({0: Dim("rows", max=32)},))
    assert _inputs(export_stablehlo(dynamic, args)) == [*places[:-1], "tensor<?x3xf32>"]
    assert len(_inputs(export_stablehlo(lambda x, y: y, (torch.ones(2), torch.ones(3))))) == 2


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.cache[1:2] = x
        return self.cache.sum(0), self.cache


def test_a_cache_that_is_written_is_read_as_written() -> None:
    def pure(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cache = cache.clone()
        cache[1:2] = x
        return cache.sum(0), cache

    model, x = Cached(), torch.ones(1, 3)
    text = export_stablehlo(model, (x,))
    assert text == export_stablehlo(pure, (model.cache, x))
    assert text == export_stablehlo(torch.export.export(model, (x,)), (x,))
    assert not model.cache.any()


def test_an_argument_that_is_written() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(y)
        x.add_(1)
        return x * 2

    args = torch.ones(3), torch.zeros(3)
    text = export_stablehlo(function, args)
    assert text == export_stablehlo(lambda x, y: (y + 1) * 2, args)
    assert args[0].tolist() == [1.0] * 3


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.norm(x), *self.norm.buffers()]


def test_batch_norm_in_training() -> None:
    def pure(*tensors: torch.Tensor) -> list[torch.Tensor]:
        weight, bias, mean, var, count, x = tensors
        count = count + 1
        out, _, _, mean, var = torch.ops.aten._native_batch_norm_legit_functional(
            x, weight, bias, mean, var, True, 0.1, 1e-5
        )
        return [out, mean, var, count]

    model, x = Counted(), torch.ones(2, 5)
    state = [*model.parameters(), *model.buffers()]
    assert export_stablehlo(model, (x,)) == export_stablehlo(pure, (*state, x))
    assert model.norm.num_batches_tracked == 0
    text = export_stablehlo(model.norm, (x,))
    assert text == export_stablehlo(torch.export.export(model.norm, (x,)), (x,))
    assert _inputs(text) == [*["tensor<5xf32>"] * 4, "tensor<i64>", "tensor<2x5xf32>"]


def test_an_exported_program_gives_what_its_module_gives() -> None:
    model, args = nn.Sequential(nn.Linear(3, 5), nn.ReLU()), (torch.ones(2, 3),)
    exported = torch.export.export(model, args)
    assert export_stablehlo(exported, args) == export_stablehlo(model, args)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * torch.arange(5, device=x.device)


def test_a_module_of_the_device_is_that_of_the_cpu() -> None:
    autoload()
    model = Positions().eval()
    with jax.enable_x64(False):
        text = torch_google.tpu.export_stablehlo(model, (torch.ones(2, 5),))
    assert "tensor<5xi64>" in text
    model.to("tpu")
    device_text = torch_google.tpu.export_stablehlo(model, (torch.ones(2, 5, device="tpu"),))
    assert device_text == text


def test_a_module_on_the_device_is_exported_as_one_on_the_cpu() -> None:
    model, x = nn.Linear(3, 5), torch.ones(2, 3)
    text = export_stablehlo(model, (x,))
    assert export_stablehlo(model.to("tpu"), (x.to("tpu"),)) == text


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.places = nn.Embedding(64, 8)
        self.qkv = nn.Linear(8, 24)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).flatten(2).softmax(1)


def _words(rows: int, length: int) -> torch.Tensor:
    return torch.arange(rows * length).reshape(rows, length) % 11


def _run(exported: jax.export.Exported, model: nn.Module, *args: torch.Tensor) -> torch.Tensor:
    state = [*model.parameters(), *model.buffers(), *args]
    with jax.enable_x64(True):
        results = exported.call(*(tensor.detach().numpy() for tensor in state))
    return torch.from_numpy(np.array(results[0]))


def test_dynamic_dimensions_are_symbolic() -> None:
    rows, length = Dim("rows", max=32), Dim("length", max=64)
    model = Attention()
    program = torch.export.export(model, (_words(3, 5),), dynamic_shapes=({0: rows, 1: length},))
    text = export_stablehlo(program, (_words(3, 5),))
    main = next(line for line in text.splitlines() if "@main" in line)
    assert "tensor<?x?xi64>" in main
    assert "tensor<?x?x8xf32>" in main
    ran = exported(program)
    assert "loc(" not in text
    for sizes in ((3, 5), (2, 2), (7, 33), (32, 64)):
        tokens = _words(*sizes)
        torch.testing.assert_close(_run(ran, model, tokens), model(tokens), rtol=1e-4, atol=1e-5)


def test_sizes_outside_of_their_bounds_are_refused() -> None:
    rows = Dim("rows", min=2, max=8)
    model = nn.Linear(3, 5)
    ran = exported(torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=({0: rows},)))
    assert _run(ran, model, torch.ones(8, 3)).shape == (8, 5)
    with pytest.raises(ValueError, match="<= 8"):
        _run(ran, model, torch.ones(9, 3))


def test_a_size_derived_of_another() -> None:
    class Pairs(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.repeat_interleave(2, 0) + y.cumsum(0) + torch.zeros(y.shape[0], 1)

    half = Dim("half", max=16)
    args = (torch.rand(4, 3), torch.rand(8, 3))
    model = Pairs()
    shapes = ({0: half}, {0: 2 * half})
    ran = exported(torch.export.export(model, args, dynamic_shapes=shapes))
    for size in (2, 5):
        x, y = torch.rand(size, 3), torch.rand(2 * size, 3)
        torch.testing.assert_close(_run(ran, model, x, y), model(x, y))


@pytest.mark.skipif(V2_6, reason="no number changes in what v2.6 exports")
def test_a_number_that_changes_is_refused() -> None:
    class Times(nn.Module):
        def forward(self, x: torch.Tensor, by: int) -> torch.Tensor:
            return x * by

    program = torch.export.export(
        Times(), (torch.ones(3), 4), dynamic_shapes=({0: Dim.DYNAMIC}, Dim.DYNAMIC)
    )
    with pytest.raises(NotImplementedError, match="is a number that changes"):
        export_stablehlo(program, (torch.ones(3), 4))


@pytest.mark.parametrize("dynamic", [False, True])
def test_products_have_the_precision_of_the_thread(dynamic: bool) -> None:
    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.t() + torch.nn.functional.conv1d(x[None], x[:, :, None]).sum()

    x = torch.ones(3, 3)
    module: nn.Module | torch.export.ExportedProgram = Product()
    if dynamic:
        sizes = {"x": {1: Dim("n", min=2, max=64)}}
        module = torch.export.export(_Squared(), (torch.ones(3, 5),), dynamic_shapes=sizes)
    assert "HIGHEST" not in export_stablehlo(module, (x,))
    with torch.tpu.precision("highest"):
        text = export_stablehlo(module, (x,))
    products = [
        line for line in text.splitlines() if "dot_general" in line or "convolution" in line
    ]
    assert len(products) == (1 if dynamic else 2)
    assert all("HIGHEST" in line for line in products)
    assert "HIGHEST" not in export_stablehlo(module, (x,))


class _Squared(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x.t()


_DECOMPOSITIONS = {
    "qr": lambda x: torch.linalg.qr(x),
    "eigh": lambda x: torch.linalg.eigh(x @ x.mT),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT),
    "lu": lambda x: torch.linalg.lu_factor_ex(x),
    "solve": lambda x: torch.linalg.solve(x, x),
}


@pytest.mark.parametrize("name", sorted(_DECOMPOSITIONS))
def test_a_decomposition_for_a_tpu_does_not_call_lapack(name: str) -> None:
    function, args = _DECOMPOSITIONS[name], (torch.eye(3),)
    for_tpu = export_stablehlo(function, args, platforms=("tpu",))
    assert "lapack_" not in for_tpu
    assert _inputs(for_tpu) == ["tensor<3x3xf32>"]
    for_cpu = export_stablehlo(function, args, platforms=("cpu",))
    assert "lapack_" in for_cpu
    assert for_cpu == export_stablehlo(function, args)


def test_an_exported_program_for_a_tpu_does_not_call_lapack() -> None:
    class Factor(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.qr(x).R @ x.mT

    sizes = {"x": {0: Dim("n", min=2, max=64)}}
    program = torch.export.export(Factor(), (torch.ones(5, 3, 3),), dynamic_shapes=sizes)
    with torch.tpu.precision("highest"):
        for_tpu = export_stablehlo(program, (), platforms=("tpu",))
    assert "lapack_" not in for_tpu
    assert "HIGHEST" in for_tpu
    assert "tensor<?x3x3xf32>" in for_tpu
    assert "lapack_" in export_stablehlo(program, ())


def test_the_precision_of_products_for_a_tpu() -> None:
    x = torch.ones(3, 3)
    assert "HIGHEST" not in export_stablehlo(torch.mm, (x, x), platforms=("tpu",))
    with torch.tpu.precision("highest"):
        assert "HIGHEST" in export_stablehlo(torch.mm, (x, x), platforms=("tpu",))


@pytest.mark.parametrize("platforms", [("gpu",), ("TPU",), (), ("tpu", "cpu"), "axelerator"])
def test_a_platform_that_does_not_exist(platforms: Any) -> None:
    message = (
        rf"export_stablehlo: platforms={re.escape(repr(platforms))}; name one of tpu, cuda, cpu"
    )
    with pytest.raises(ValueError, match=message):
        export_stablehlo(torch.sin, (torch.ones(2),), platforms=platforms)


def test_a_dtype_that_the_platform_lacks() -> None:
    x = torch.ones(2, dtype=torch.complex128)
    with pytest.raises(RuntimeError, match="the platform tpu has no torch.complex128"):
        export_stablehlo(torch.sin, (x,), platforms=("tpu",))
    assert "complex<f64>" in export_stablehlo(torch.sin, (x,), platforms=("cuda",))
