# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental.layout import Format, Layout

import torch_google.tpu
from torch_google.tpu import from_jax, to_jax


def test_one_buffer_both_ways() -> None:
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    array = to_jax(x)
    assert to_jax(x).unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    y = from_jax(array)
    assert to_jax(y).unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    assert (y.device, y.dtype, y.shape) == (x.device, x.dtype, x.shape)
    jax_array = jnp.arange(4.0)
    assert to_jax(from_jax(jax_array)).unsafe_buffer_pointer() == jax_array.unsafe_buffer_pointer()


def test_a_result_of_the_device_shares_its_buffer() -> None:
    x = torch.ones(3, device="tpu") + 1
    assert to_jax(x) is to_jax(x)


VIEWS = [
    lambda x: x,
    lambda x: x.t(),
    lambda x: x[1],
    lambda x: x[:, 1:3],
    lambda x: x.reshape(-1),
    lambda x: x.as_strided((2, 2), (1, 1), 3),
    lambda x: x.expand(2, 3, 4),
    lambda x: x[:0],
    lambda x: x[1, 2],
    lambda x: x.diagonal(),
]


@pytest.mark.parametrize("view", VIEWS)
def test_views(view: Any) -> None:
    cpu_tensor = torch.arange(12.0).reshape(3, 4)
    array = to_jax(view(cpu_tensor.to("tpu")))
    np.testing.assert_array_equal(np.asarray(array), view(cpu_tensor).numpy())


def test_bits_of_another_dtype_and_lazy_signs() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert to_jax(x.to("tpu").conj()).tolist() == [1 - 2j, 3 + 4j]
    assert to_jax(x.to("tpu").conj().imag).tolist() == [-2.0, 4.0]
    bits = torch.ones(2).to("tpu").view(torch.int32)
    assert to_jax(bits).tolist() == [0x3F800000] * 2


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int16,
        torch.int64,
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.complex64,
        torch.complex128,
    ],
)
def test_dtypes(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0, 2.0]).to(dtype).to("tpu")
    array = to_jax(x)
    assert array.dtype == torch_google.tpu.dtypes.to_jax(dtype)
    back = from_jax(array)
    assert back.dtype == dtype
    assert back.cpu().to(torch.complex64).tolist() == x.cpu().to(torch.complex64).tolist()


def test_each_keeps_its_values_when_the_other_changes() -> None:
    x = torch.zeros(3, device="tpu")
    array = to_jax(x)
    x.add_(1)
    x[1:] = 5
    assert array.tolist() == [0.0] * 3
    y = from_jax(array)
    y.fill_(7)
    assert array.tolist() == [0.0] * 3
    assert y.tolist() == [7.0] * 3


def test_a_gradient_is_not_lost_in_silence() -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    with pytest.raises(RuntimeError, match="to_jax: the tensor requires grad"):
        to_jax(x * 2)
    assert to_jax(x.detach()).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="within torch.func"):
        torch.vmap(lambda one: from_jax(to_jax(one)))(x.detach())


@pytest.mark.parametrize(
    ("tensor", "kind", "message"),
    [
        (
            torch.ones(2),
            ValueError,
            r"found one of cpu. Move it with .to\('tpu'\), or use jax.numpy",
        ),
        (torch.ones(2, device="meta"), ValueError, "found one of meta"),
        (3, TypeError, "expected a tensor, found int"),
    ],
)
def test_what_is_no_tensor_of_tpu(tensor: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        to_jax(tensor)


def test_arrays_without_a_buffer() -> None:
    array = jnp.ones(3)
    array.delete()
    with pytest.raises(RuntimeError, match=r"from_jax: the array float\d+\[3\] was donated"):
        from_jax(array)
    with pytest.raises(RuntimeError, match="from_jax: a tracer has no values yet"):
        jax.jit(from_jax)(jnp.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: np.ones(3), "expected a jax.Array, found ndarray"),
        (lambda: jax.random.key(0), "use jax.random.key_data"),
        (lambda: jnp.ones(2, jnp.int4), "torch has no dtype for int4"),
    ],
)
def test_arrays_that_torch_has_no_tensor_for(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_jax(make())


def test_arrays_of_unusual_kinds() -> None:
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    x = from_jax(weak)
    assert not to_jax(x).weak_type
    assert (x + 1).item() == 3.0
    array = jnp.arange(6.0).reshape(2, 3)
    columns = jax.device_put(array, Format(Layout((1, 0)), array.sharding))
    y = from_jax(columns)
    assert (y + 1).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert y.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


DEVICES = """
import torch, torch_google.tpu, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
torch_google.tpu.autoload()
from torch_google.tpu import from_jax, to_jax
x = torch.ones(2, device="tpu:1")
array = to_jax(x)
print(array.devices() == {jax.devices()[1]}, from_jax(array).device)
def refused(array):
    try:
        from_jax(array)
    except ValueError as error:
        print(error)
refused(jax.device_put(jnp.ones(6), NamedSharding(Mesh(jax.devices(), "d"), P("d"))))
print(from_jax(jax.device_put(jnp.ones(4), jax.devices()[2])).device)
refused(jax.device_put(jnp.ones(4), array.sharding.with_memory_kind("pinned_host")))
"""


def printed(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
def test_several_devices() -> None:
    lines = printed(DEVICES, TORCH_TPU_PLATFORM="cpu", TORCH_TPU_CPU_DEVICES="3")
    assert lines[0] == "True tpu:1"
    assert lines[1].startswith("from_jax: the array is on 3 devices")
    assert "addressable_shards" in lines[1]
    assert lines[2] == "tpu:2"
    assert lines[3].startswith("from_jax: the array is in memory of kind pinned_host")


def test_the_names_load_no_jax() -> None:
    program = """
import sys, torch_google.tpu
print("jax" in sys.modules, "to_jax" in dir(torch_google.tpu))
torch_google.tpu.autoload()
print("jax" in sys.modules)
try:
    torch_google.tpu.to_jacks
except AttributeError as error:
    print(error)
"""
    assert printed(program) == [
        "False True",
        "False",
        "module 'torch_google.tpu' has no attribute 'to_jacks'",
    ]
