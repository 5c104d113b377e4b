# SPDX-License-Identifier: Apache-2.0
"""One operator of torch's op_db with one dtype: its samples in JAX, compared with the CPU."""

from __future__ import annotations

import enum
import itertools
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

from tests.conformance import distribution, verify
from tests.conformance.stand_in import StandIn


class Outcome(enum.Enum):
    PASSED = "passed"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    SLOW = "slow"
    EMPTY = "empty"


@dataclass(frozen=True)
class Trial:
    """`samples`: those that the CPU itself accepts. `message`: the first that went wrong."""

    op: str
    dtype: str
    outcome: Outcome
    samples: int
    passed: int
    message: str = ""


def operators() -> dict[str, Any]:
    """Return torch's op_db by name; a variant is `name.variant`."""
    return {_name(op): op for op in common_methods_invocations.op_db}


def attempt(op: Any, dtype: torch.dtype, *, samples: int, seconds: int) -> Trial:
    """Run the first samples of an operator, each for at most so many seconds."""
    tried = passed = 0
    outcome, message = Outcome.EMPTY, ""
    for index, (args, kwargs) in enumerate(itertools.islice(_samples(op, dtype), samples)):
        expected = _expected(op, args, kwargs)
        if expected is None:
            continue
        tried += 1
        found, words = _one(op, args, kwargs, expected[0], seconds)
        passed += found is Outcome.PASSED
        if found is not Outcome.PASSED and not message:
            outcome, message = found, f"sample {index}: {words}"
    if tried and passed == tried:
        outcome = Outcome.PASSED
    return Trial(_name(op), str(dtype).removeprefix("torch."), outcome, tried, passed, message)


def _one(op: Any, args: Any, kwargs: Any, expected: Any, seconds: int) -> tuple[Outcome, str]:
    try:
        with _limit(seconds):
            mode = StandIn()
            got = _call(op, args, kwargs, mode)
            found = _compare(op, args, kwargs, got, expected, mode)
    except NotImplementedError as refused:
        return Outcome.UNSUPPORTED, _line(refused)
    except TimeoutError as late:
        return Outcome.SLOW, str(late)
    except Exception as broken:  # noqa: BLE001 - whatever a lowering raises is its result
        return Outcome.CRASHED, f"{type(broken).__name__}: {_line(broken)}"
    return (Outcome.WRONG, found) if found else (Outcome.PASSED, "")


def _compare(op: Any, args: Any, kwargs: Any, got: Any, expected: Any, mode: StandIn) -> str:
    if op.name in _UNDEFINED:
        return verify.differs(got, expected, values=False)
    found = verify.rebuilt(op.name, args, kwargs, got, expected)
    if found is not None:
        return found
    if not mode.random:
        return verify.differs(got, expected)
    if words := verify.differs(got, expected, values=False):
        return words
    for leaf in range(len(pytree.tree_leaves(expected))):
        if not isinstance(pytree.tree_leaves(expected)[leaf], torch.Tensor):
            continue

        def ours(seed: int, leaf: int = leaf) -> torch.Tensor:
            return pytree.tree_leaves(_call(op, args, kwargs, StandIn(seed=seed)))[leaf]

        def theirs(seed: int, leaf: int = leaf) -> torch.Tensor:
            torch.manual_seed(seed)
            return pytree.tree_leaves(_call(op, args, kwargs))[leaf]

        if words := distribution.differs(ours, theirs):
            return words
    return ""


def _call(op: Any, args: Any, kwargs: Any, mode: StandIn | None = None) -> Any:
    call: Callable[..., Any] = op.op
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copied, (args, kwargs))
    if mode is None:
        with _own_seeds():
            return call(*args, **kwargs)
    # oneDNN's own kernels and the CPU's flash attention are not what another device would be asked.
    attention = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with _own_seeds(), torch.backends.mkldnn.flags(enabled=False), attention, mode:
        return call(*args, **kwargs)


def _own_seeds() -> Any:
    """Keep op_db from the one seed that it sets for each call of a random operator."""
    return mock.patch.object(
        common_methods_invocations,
        "wrapper_set_seed",
        lambda function, *args, **kwargs: function(*args, **kwargs),
    )


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _expected(op: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
    """Return what the CPU gives, or None where it refuses the sample itself."""
    torch.manual_seed(0)
    try:
        return (_call(op, args, kwargs),)
    except (RuntimeError, NotImplementedError, ValueError, TypeError):
        return None


def _samples(op: Any, dtype: torch.dtype) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            yield (sample.input, *sample.args), dict(sample.kwargs)


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _line(found: BaseException) -> str:
    lines = str(found).strip().splitlines() or [""]
    return lines[0][:300]


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def late(signum: int, frame: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# What is in these tensors is not defined: only their shape and dtype can be right or wrong.
_UNDEFINED = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
