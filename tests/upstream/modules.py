# SPDX-License-Identifier: Apache-2.0
"""The rows to test from module_db, torch's table of modules.

A row passes if results, gradients, states and layouts on tpu match those on the CPU.
"""

from __future__ import annotations

import copy
import functools
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.testing._internal.common_modules import FunctionInput, module_db
from torch.utils import _pytree as pytree

from tests.upstream import agreement
from tests.upstream.row import Mismatch, Result, Row, Table, judge

_INFOS = {info.name: info for info in module_db}
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def rows() -> list[Row]:
    """Return a row per module, declared dtype and mode, but omit `eval` if it acts like `train`."""
    return [
        Row(Table.MODULES, name, dtype, variant)
        for name, info in _INFOS.items()
        for dtype in sorted(info.dtypes, key=str)
        for variant in (("train", "eval") if info.train_and_eval_differ else ("train",))
    ]


def run(row: Row, *, samples: int) -> Result:
    """Test a row's module, in the row's dtype and mode, on its first samples.

    The row fails if any sample fails.
    """
    named = ((f"sample {i}", s) for i, s in enumerate(itertools.islice(_samples(row), samples)))
    return judge(row, named, expected=expected_run, compare=check)


@dataclass(frozen=True)
class Sample:
    """The CPU tensors for one test of a module: arguments for its constructor and for a call."""

    info: Any
    training: bool
    dtype: torch.dtype
    made_of: Any
    called_with: Any

    def module(self) -> torch.nn.Module:
        torch.manual_seed(0)
        module = self.info.module_cls(*self.made_of.args, **self.made_of.kwargs)
        assert isinstance(module, torch.nn.Module)
        return module.to(self.dtype).train(self.training)

    def wide(self) -> Sample:
        """Return a copy of this sample in double precision."""

        def one(leaf: torch.Tensor) -> torch.Tensor:
            if not leaf.is_floating_point():
                return leaf
            return leaf.detach().double().requires_grad_(leaf.requires_grad)

        called = FunctionInput(
            *pytree.tree_map_only(torch.Tensor, one, self.called_with.args),
            **pytree.tree_map_only(torch.Tensor, one, self.called_with.kwargs),
        )
        return replace(self, dtype=torch.float64, called_with=called)

    def inputs(self, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for a call on `device`, as new leaf tensors."""
        return _moved((self.called_with.args, self.called_with.kwargs), device)


@dataclass(frozen=True)
class Run:
    """A module after a forward and a backward pass, with the results and gradients."""

    module: torch.nn.Module
    results: Any
    cotangents: list[torch.Tensor]
    gradients: list[Any]


def _samples(row: Row) -> Iterator[Sample]:
    info = _INFOS[row.name]
    training = row.variant == "train"
    torch.manual_seed(0)
    for inputs in info.module_inputs_func(
        info, device="cpu", dtype=row.dtype, requires_grad=True, training=training
    ):
        options = inputs.constructor_input.kwargs
        # torch creates fractional pooling's random samples in float64, but the operator requires
        # the dtype of its input.
        if "_random_samples" in options:
            options["_random_samples"] = options["_random_samples"].to(row.dtype)
        yield Sample(info, training, row.dtype, inputs.constructor_input, inputs.forward_input)


def expected_run(sample: Sample) -> Run | None:
    """Run a sample on the CPU. Return None if the CPU raises an error."""
    try:
        return _pass(sample.module(), sample, "cpu")
    except (RuntimeError, NotImplementedError, ValueError, TypeError):
        return None


def _pass(module: torch.nn.Module, sample: Sample, device: str, cotangents: Any = None) -> Run:
    args, kwargs = sample.inputs(device)
    results = module(*args, **kwargs)
    outputs = [leaf for leaf in _tensors(results) if leaf.requires_grad]
    if cotangents is None:
        generator = torch.Generator().manual_seed(1)
        cotangents = [torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in outputs]
    cotangents = [x.to(leaf) for x, leaf in zip(cotangents, outputs, strict=True)]
    leaves = [*_tensors((args, kwargs)), *module.parameters()]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    gradients: list[Any] = []
    if outputs and leaves:
        gradients = list(torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True))
    return Run(module, results, cotangents, gradients)


def check(sample: Sample, expected: Run, first: bool) -> None:
    """Raise a Mismatch if the results of a sample on tpu differ from `expected`.

    For the first sample, also check the module after it is copied, saved and loaded, moved between
    devices, or converted to channels_last.
    """
    _compare(sample, expected)
    if first:
        _carry(sample, expected)


def _compare(sample: Sample, expected: Run) -> None:
    module = sample.module().to("tpu")
    if sample.info.is_lazy:  # A lazy module creates random parameters in its first call.
        args, kwargs = sample.inputs("tpu")
        module(*args, **kwargs)
        module.load_state_dict(expected.module.state_dict())
    actual = _pass(module, sample, "tpu")
    exact = _exact(sample, expected)
    agreement.check(
        "result",
        actual.results,
        expected.results,
        strides=True,
        truth=exact and (lambda: exact().results),
    )
    agreement.check(
        "gradient",
        actual.gradients,
        expected.gradients,
        truth=exact and (lambda: exact().gradients),
    )
    agreement.check("state after the call", dict(module.state_dict()), _state(expected.module))
    if sample.training:
        return
    with torch.no_grad():
        args, kwargs = sample.inputs("tpu")
        cpu_args, cpu_kwargs = sample.inputs("cpu")
        result = expected.module(*cpu_args, **cpu_kwargs)
        agreement.check("result without gradients", module(*args, **kwargs), result)


def _exact(sample: Sample, expected: Run) -> Callable[[], Run] | None:
    """Return a memoized function that runs the sample in float64.

    Return None if the sample's dtype is float64 or is not a floating-point type.
    """
    if not sample.dtype.is_floating_point or sample.dtype == torch.float64:
        return None
    wide = sample.wide()
    return functools.cache(lambda: _pass(wide.module(), wide, "cpu", expected.cotangents))


def _carry(sample: Sample, expected: Run) -> None:
    """Check a module after saving it to a file, copying it, and moving it to tpu and back."""
    module = sample.module()
    if sample.info.is_lazy:
        args, kwargs = sample.inputs("cpu")
        module(*args, **kwargs)
    state = _state(module)
    on_tpu = copy.deepcopy(module).to("tpu")
    agreement.on_device("Module.to('tpu')", dict(on_tpu.state_dict()))
    agreement.equal("state_dict of the device", dict(on_tpu.state_dict()), state)
    agreement.equal("Module.cpu()", _state(copy.deepcopy(on_tpu).cpu()), state)

    file = io.BytesIO()
    torch.save(on_tpu.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    if any(leaf.device.type != "cpu" for leaf in loaded.values()):
        raise Mismatch("map_location='cpu': a tensor is on another device")
    back = copy.deepcopy(module)
    for leaf in back.state_dict().values():
        leaf.zero_()
    back.load_state_dict(loaded)
    agreement.equal("state_dict through a file", _state(back), state)
    on_tpu.load_state_dict(loaded)
    agreement.on_device("load_state_dict", dict(on_tpu.state_dict()))
    agreement.equal("load_state_dict on the device", dict(on_tpu.state_dict()), state)

    copied = copy.deepcopy(on_tpu)
    for leaf in on_tpu.state_dict().values():
        leaf.zero_()
    agreement.on_device("deepcopy", dict(copied.state_dict()))
    agreement.equal("deepcopy, once the first is zero", dict(copied.state_dict()), state)
    agreement.check("deepcopy's result", _pass(copied, sample, "tpu").results, expected.results)
    _created_on_device(sample, state)
    _channels_last(sample, module)


def _created_on_device(sample: Sample, state: dict[str, Any]) -> None:
    """Check a module created on tpu, if its constructor has a `device` argument."""
    if "device" not in sample.made_of.kwargs or sample.info.is_lazy:
        return
    args, kwargs = _moved((sample.made_of.args, sample.made_of.kwargs), "tpu")
    module = sample.info.module_cls(*args, **{**kwargs, "device": "tpu", "dtype": sample.dtype})
    actual = dict(module.state_dict())
    agreement.on_device("a module with device='tpu'", actual)
    if {n: (t.shape, t.dtype) for n, t in actual.items()} != {
        n: (t.shape, t.dtype) for n, t in state.items()
    }:
        raise Mismatch("a module with device='tpu': the names, sizes or dtypes of its state differ")


def _channels_last(sample: Sample, module: torch.nn.Module) -> None:
    """Check the results for channels_last inputs, and their layout if the module preserves it."""
    format_ = next(
        (
            _FORMATS[leaf.dim()]
            for leaf in _tensors(sample.called_with.args)
            if leaf.dim() in _FORMATS
        ),
        None,
    )
    if format_ is None:
        return
    results = []
    for device in ("tpu", "cpu"):
        placed = copy.deepcopy(module).to(device)
        try:
            placed.to(memory_format=format_)
        except RuntimeError:  # A parameter has neither 4 nor 5 dimensions.
            return
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda leaf: (
                leaf.contiguous(memory_format=format_)
                if _FORMATS.get(leaf.dim()) is format_
                else leaf
            ),
            sample.inputs(device),
        )
        results.append(placed(*args, **kwargs))
    # Compare strides in float32 only, because CPU kernels for other dtypes use different layouts.
    strides = sample.info.module_memformat_affects_out and sample.dtype == torch.float32
    agreement.check("result in channels_last", *results, strides=strides)


def _moved(structure: Any, device: str) -> Any:
    def one(leaf: torch.Tensor) -> torch.Tensor:
        return leaf.detach().clone().to(device).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, PackedSequence) else leaf,
        pytree.tree_map_only(torch.Tensor, one, structure),
        is_leaf=lambda leaf: isinstance(leaf, PackedSequence),
    )


def _state(module: torch.nn.Module) -> dict[str, Any]:
    return {name: leaf.detach().clone() for name, leaf in module.state_dict().items()}


def _tensors(structure: Any) -> list[torch.Tensor]:
    leaves = []
    for leaf in pytree.tree_leaves(structure, is_leaf=lambda x: isinstance(x, PackedSequence)):
        leaves.append(leaf.data if isinstance(leaf, PackedSequence) else leaf)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
