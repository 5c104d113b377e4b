# SPDX-License-Identifier: Apache-2.0
"""List the cases and the calls that run them.

The cases come from op_db, module_db, STEPS and KERNELS.
"""

from __future__ import annotations

import fnmatch
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

from tests.aot import kernels, steps
from tests.aot.rows import Case
from tests.conformance import observe, samples
from tests.conformance.observe import Place
from tests.conformance.trial import applies, few

# The index of a sample, and a function that runs it on the device.
Call = tuple[int, Callable[[], object]]

# The default numbers of samples: op_db's first sample, then random ones, as in the conformance
# tests.
_SAMPLES, _FEWER_SAMPLES = 5, 2

_MODULES = {info.name: info for info in module_db}


def cases(patterns: Sequence[str], dtypes: Sequence[str], checks: Sequence[str]) -> list[Case]:
    """Return the cases of the subjects (such as operators) whose names match a pattern.

    The cases are ordered by check and dtype. Raises ValueError if a pattern matches no subject.
    """
    names = {check: list(_names(check)) for check in checks}
    every = [name for group in names.values() for name in group]
    unknown = [pattern for pattern in patterns if not fnmatch.filter(every, pattern)]
    if unknown:
        raise ValueError(f"no subject {', '.join(unknown)} in {', '.join(checks)}. See --list")
    return [
        Case(name, dtype, check)
        for check, dtype in itertools.product(checks, dtypes)
        for name in names[check]
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        if _exists(name, dtype, check)
    ]


def calls(case: Case, count: int | None = None) -> list[Call]:
    """Return the first `count` samples of a case.

    The default is five for the `forward` check in float32, and two for all other cases.
    """
    if count is None:
        is_first = (case.dtype, case.check) == ("float32", "forward")
        count = _SAMPLES if is_first else _FEWER_SAMPLES
    if case.check == "step":
        return [(0, steps.STEPS[case.subject])]
    if case.check == "module":
        return list(itertools.islice(_module_calls(case), count))
    op, dtype = samples.operators()[case.subject], getattr(torch, case.dtype)
    gate = few(case.dtype, case.check)
    gradients = case.check == "backward"
    picked, _ = samples.pick(op, dtype, count, few=gate, gradients=gradients)
    return [(sample.index, _observed(op, case.check, sample)) for sample in picked]


def _names(check: str) -> Iterator[str]:
    tables = {"module": _MODULES, "step": steps.STEPS, "kernel": kernels.KERNELS}
    yield from tables.get(check) or samples.operators()


def _exists(name: str, dtype: str, check: str) -> bool:
    if check == "step":
        return dtype == "float32"
    if check == "kernel":
        return dtype in kernels.DTYPES
    if check == "module":
        # Omit lazy modules, which become ordinary modules when first called.
        return dtype in ("float32", "bfloat16") and "Lazy" not in name
    return applies(samples.operators()[name], getattr(torch, dtype), check)


def _observed(op: object, check: str, sample: samples.Sample) -> Callable[[], object]:
    def run() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function: observe.Observer = getattr(observe, check)
            return function(op, sample, Place("tpu"))

    return run


def _module_calls(case: Case) -> Iterator[Call]:
    info, dtype = _MODULES[case.subject], getattr(torch, case.dtype)
    torch.manual_seed(0)
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=True
    )
    for index, arguments in enumerate(inputs):

        def run(arguments: object = arguments) -> object:
            return _pass(info.module_cls, arguments, dtype)

        yield index, run


def _pass(module_class: Callable[..., torch.nn.Module], arguments: object, dtype: object) -> object:
    """Run a module's forward and backward passes on the device."""
    made_of, called_with = arguments.constructor_input, arguments.forward_input  # type: ignore[attr-defined]
    module = module_class(*made_of.args, **made_of.kwargs).to("tpu", dtype).train()
    args, kwargs = pytree.tree_map_only(
        torch.Tensor,
        lambda tensor: tensor.detach().to("tpu").requires_grad_(tensor.requires_grad),
        (called_with.args, called_with.kwargs),
    )
    results = module(*args, **kwargs)
    leaves = pytree.tree_leaves(results)
    outputs = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    return results
