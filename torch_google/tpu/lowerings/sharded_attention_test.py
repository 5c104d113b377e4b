# SPDX-License-Identifier: Apache-2.0
"""In programs that XLA partitions, attention's kernels run on each device's batch and heads."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from torch_google.tpu.lowerings.flash_attention_test import with_gradients
from torch_google.tpu.lowerings.partitioned_call import resolve
from torch_google.tpu.lowerings.sharded_attention import divided

_MESH = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
_SHAPE = (4, 8, 1024, 64)


def _lowered(
    spec: tuple[Any, ...], *, keys: tuple[int, ...] = _SHAPE, causal: bool = True
) -> jax.stages.Lowered:
    """Lower attention and its gradients, whose arguments have this sharding, for TPUs."""
    sharding = NamedSharding(_MESH, PartitionSpec(*spec))
    q, k = (jax.ShapeDtypeStruct(s, jnp.bfloat16, sharding=sharding) for s in (_SHAPE, keys))
    traced = jax.jit(with_gradients(causal, None)).trace(q, k, k, q)
    return traced.lower(lowering_platforms=("tpu",))


def _kernels(lowered: jax.stages.Lowered) -> int:
    return lowered.as_text().count("@tpu_custom_call")


def _inputs(lowered: jax.stages.Lowered) -> list[str]:
    """Return the sharding of the first operand of each function that devices run."""
    return re.findall(r"manual_computation.*in_shardings=\[<@\w+, (\[.*?\])>", lowered.as_text())


def test_devices_run_the_kernels_on_their_batch_and_heads() -> None:
    lowered = resolve(_lowered(("data", "model")))
    assert _kernels(lowered) == 3
    assert _inputs(lowered) == ['[{"data"}, {"model"}, {}, {}]'] * 2
    assert "tensor<2x2x1024x64xbf16>" in lowered.as_text()


def test_heads_that_share_keys_are_divided() -> None:
    # Four devices share eight heads, but only two heads of keys.
    lowered = resolve(_lowered(("data",), keys=(4, 2, 1024, 64)))
    assert _kernels(lowered) == 3
    assert _inputs(lowered) == ['[{"data"}, {"model"}, {}, {}]'] * 2


def test_an_axis_that_shards_head_dim_divides_the_heads() -> None:
    lowered = resolve(_lowered(("data", None, None, "model")))
    assert _kernels(lowered) == 3
    assert _inputs(lowered) == ['[{"data"}, {"model"}, {}, {}]'] * 2


def test_causal_rows_are_divided_without_kernels() -> None:
    lowered = resolve(_lowered(("data", None, "model")))
    assert _kernels(lowered) == 0
    assert _inputs(lowered) == ['[{"data"}, {}, {"model"}, {}]'] * 2


def test_other_rows_are_divided_with_kernels() -> None:
    lowered = resolve(_lowered(("data", None, "model"), causal=False))
    assert _kernels(lowered) == 3
    assert "tensor<2x8x256x64xbf16>" in lowered.as_text()


def test_a_replicated_program_runs_the_kernels() -> None:
    assert _kernels(resolve(_lowered(()))) == 3


def test_the_text_of_the_program_does_not_depend_on_the_process() -> None:
    text = _lowered(("data", "model")).as_text()
    assert text == _lowered(("data", "model")).as_text()
    assert text != _lowered(("data", "model"), causal=False).as_text()
    lowered = _lowered(("data", "model"))
    resolve(lowered)
    assert lowered.as_text() == text
    placeholders = re.findall(r'backend_config = "(.*?)"', text)
    assert len(placeholders) == 2
    assert not any(re.search("0x|[0-9]{9}", name) for name in placeholders)


def test_another_program_is_not_changed() -> None:
    _lowered(("data",))
    lowered = jax.jit(jnp.sin).lower(1.0)
    assert resolve(lowered) is lowered


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([{"b": ("x",), "h": ("y",)}], {"b": ("x",), "h": ("y",), "r": ()}),
        ([{"h": ("x",)}, {"b": ("x",), "h": ("y",)}], {"b": ("x",), "h": ("y",), "r": ()}),
        # Without y, four devices would compute the same.
        ([{"b": ("x",)}], {"b": ("x",), "h": ("y",), "r": ()}),
        # Each of the y devices has one head, so x divides the batch. If it divided the rows, each
        # device would need all keys of all batch entries.
        ([{"h": ("y", "x")}], {"b": ("x",), "h": ("y",), "r": ()}),
        # An axis that divides the batch of one array does not divide the rows of another.
        ([{"r": ("x",)}, {"b": ("x",)}], {"b": ("x",), "h": ("y",), "r": ()}),
        ([{"k": ("x",)}, {"d": ("y",)}], {"b": (), "h": ("y",), "r": ("x",)}),
        # Nothing can be divided by z, so all devices along z compute the same.
        ([{"k": ("z",)}], {"b": ("x",), "h": ("y",), "r": ()}),
        ([{}], {"b": (), "h": (), "r": ()}),
    ],
)
def test_axes_are_divided(arrays: list[Any], expected: Any) -> None:
    mesh, sizes = {"x": 2, "y": 4, "z": 3}, {"b": 2, "h": 4, "r": 256, "k": 9, "d": 64}
    assert divided(mesh, sizes, arrays) == expected
