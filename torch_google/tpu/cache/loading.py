# SPDX-License-Identifier: Apache-2.0
"""Converts JAX executables to XLA's serialized bytes plus a plain-data description, and back.

`jax.experimental.serialize_executable` pickles the description. This module uses JSON instead, so
that reading a description cannot call functions named in the file. XLA's bytes, however, are
machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax._src.interpreters.pxla import UnloadedMeshExecutable
from jax._src.lax.linalg import initialize_lapack
from jax._src.layout import Layout
from jax._src.lib import gpu_solver, xla_client
from jax._src.stages import ArgInfo
from jax.core import ShapedArray
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from torch_google.tpu import shardings
from torch_google.tpu.cache.environment import on_any_device

# The fields of JAX's executables that `describe` saves, directly or indirectly. A program that uses
# any other field, such as one added by a newer JAX release, cannot be serialized.
_DESCRIBED = frozenset(
    {
        *("xla_executable", "device_list", "backend", "name", "committed", "kept_var_idx"),
        *("input_avals", "input_shardings", "output_avals", "output_shardings"),
        *("xla_in_layouts", "dispatch_in_layouts", "xla_out_layouts"),
    }
)
# Fields that can be dropped, because only error messages and profiling use them.
_DISPENSABLE = frozenset({"all_args_info", "pgle_profiler"})
# The start of the names of the LAPACK functions that a program for the CPU calls. JAX initializes
# these functions only when it lowers such a program. A loaded program would call null pointers.
_LAPACK = b"lapack_"
# The same for the functions of jaxlib for CUDA that compute partly on the host with LAPACK.
_HYBRID = b"cuhybrid_"


def describe(compiled: jax.stages.Compiled) -> tuple[Any, bytes]:
    """Return a JSON-serializable description of an executable, and XLA's serialized bytes.

    Raises ValueError for a program with callbacks, effects, shardings without a mesh, or containers
    other than tuples, lists and dicts. Also raises XLA's serialization errors.
    """
    unloaded = getattr(compiled._executable, "_unloaded_executable", None)
    if not isinstance(unloaded, UnloadedMeshExecutable) or compiled._params.const_args:
        raise ValueError("JAX keeps no serializable form of this program")
    for field in set(UnloadedMeshExecutable.__slots__) - _DESCRIBED - _DISPENSABLE:
        if getattr(unloaded, field):
            raise ValueError(f"the program has {field}, which belong to this process")
    arguments, structure = jax.tree.flatten(compiled.args_info)
    description = {
        "name": unloaded.name,
        "committed": bool(unloaded.committed),
        "no_kwargs": bool(compiled._no_kwargs),
        "kept": sorted(unloaded.kept_var_idx),
        "arguments": [[*_array(each._aval), bool(each.donated)] for each in arguments],
        "inputs": [_array(each) for each in unloaded.input_avals],
        "outputs": [_array(each) for each in unloaded.output_avals],
        "input_shardings": [_described(each) for each in unloaded.input_shardings],
        "output_shardings": [_described(each) for each in unloaded.output_shardings],
        "layouts": [
            [None if each is None else _layout(each) for each in layouts]
            for layouts in (
                unloaded.xla_in_layouts,
                unloaded.dispatch_in_layouts,
                unloaded.xla_out_layouts,
            )
        ],
        "in_tree": _tree(structure),
        "out_tree": _tree(compiled.out_tree),
    }
    executable = unloaded.xla_executable
    if hasattr(executable, "serialize"):  # a program for a topology, which no client has loaded
        return description, executable.serialize()
    return description, unloaded.backend.serialize_executable(executable)


def load(description: Any, code: bytes, devices: Sequence[jax.Device]) -> jax.stages.Compiled:
    """Load an executable on `devices`, which must be in the order of the executable's mesh.

    Raises KeyError, TypeError, ValueError or similar if the description is malformed, and XLA's
    errors if XLA cannot load the bytes.
    """
    in_shardings, out_shardings = (
        [_sharding(each, devices) for each in description[key]]
        for key in ("input_shardings", "output_shardings")
    )
    inputs, outputs = ([_aval(*each) for each in description[key]] for key in ("inputs", "outputs"))
    layouts = [
        [None if each is None else Layout(*map(_tuple, each[:2]), int(each[2])) for each in of]
        for of in description["layouts"]
    ]
    in_layouts, dispatch_layouts, out_layouts = layouts
    arguments = [
        ArgInfo(_aval(shape, dtype, weak), bool(donated))
        for shape, dtype, weak, donated in description["arguments"]
    ]
    kept_indices = {int(index) for index in description["kept"]}
    args_info = _structure(description["in_tree"]).unflatten(arguments)
    out_tree = _structure(description["out_tree"])
    if not (
        len(inputs)
        == len(in_shardings)
        == len(in_layouts)
        == len(dispatch_layouts)
        == len(kept_indices)
        and len(outputs) == len(out_shardings) == len(out_layouts) == out_tree.num_leaves
        and kept_indices <= set(range(len(arguments)))
    ):
        raise ValueError("its description has lists of different lengths")
    client = devices[0].client
    device_list = jax._src.lib.xla_client.DeviceList(tuple(devices))
    if _LAPACK in code:
        initialize_lapack()
    if _HYBRID in code:
        gpu_solver.initialize_hybrid_kernels()
    executable = client.deserialize_executable(
        code, executable_devices=device_list, compile_options=_options(devices)
    )
    unloaded = UnloadedMeshExecutable(
        xla_executable=executable,
        device_list=device_list,
        backend=client,
        input_avals=inputs,
        input_shardings=in_shardings,
        output_avals=outputs,
        output_shardings=out_shardings,
        committed=bool(description["committed"]),
        name=_word(description["name"]) or "",
        unordered_effects=[],
        ordered_effects=[],
        keepalive=[],
        host_callbacks=[],
        kept_var_idx=kept_indices,
        mut=None,
        xla_in_layouts=in_layouts,
        dispatch_in_layouts=dispatch_layouts,
        xla_out_layouts=out_layouts,
        all_args_info=None,
        pgle_profiler=None,
    )
    return jax.stages.Compiled(
        unloaded.load(), [], args_info, out_tree, no_kwargs=bool(description["no_kwargs"])
    )


def _options(devices: Sequence[jax.Device]) -> xla_client.CompileOptions | None:
    """Return options that load a program onto this device, or None to use its original devices."""
    if not on_any_device(devices):
        return None
    options = xla_client.CompileOptions()
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[devices[0].id]]))
    return options


def _array(aval: Any) -> list[Any]:
    if type(aval) is not ShapedArray or not isinstance(aval.dtype, np.dtype):
        raise ValueError(f"the program has a {aval}, which is not an array of numbers")
    return [list(aval.shape), str(aval.dtype), bool(aval.weak_type)]


def _aval(shape: Any, dtype: Any, weak: Any) -> ShapedArray:
    return ShapedArray(_tuple(shape), jax.numpy.dtype(_word(dtype)), weak_type=bool(weak))


def _described(sharding: Any) -> list[Any]:
    """Return the memory kind and, for several devices, the sharding as a string.

    For a value that is replicated across all of the program's devices, the string is replaced by
    None.
    """
    if isinstance(sharding, SingleDeviceSharding):
        return [sharding.memory_kind]
    if isinstance(sharding, NamedSharding):
        text = shardings.text_of(shardings.number_of(sharding))
        return [sharding.memory_kind, text]
    if sharding.is_fully_replicated:
        return [sharding.memory_kind, None]
    raise ValueError(f"the program has a {type(sharding).__name__}, which names no mesh")


def _sharding(described: Any, devices: Sequence[jax.Device]) -> jax.sharding.Sharding:
    kind, *text = described
    if not text:
        (device,) = devices
        return SingleDeviceSharding(device, memory_kind=_word(kind))
    if text[0] is None:
        mesh = Mesh(np.array(devices), ("devices",))
        return NamedSharding(mesh, PartitionSpec(), memory_kind=_word(kind))
    sharding = shardings.sharding_of(shardings.parse(_word(text[0])))
    if tuple(sharding.mesh.devices.flat) != tuple(devices):
        raise ValueError("its mesh has other devices")
    return sharding.with_memory_kind(_word(kind))


def _layout(layout: Any) -> list[Any]:
    tiles = [list(tile) for tile in layout.tiling or ()]
    return [list(layout.major_to_minor), tiles, layout.sub_byte_element_size_in_bits]


def _tree(structure: Any) -> Any:
    """Return a tree of containers as JSON. Leaves are 0; a list or tuple begins with its type."""
    return _node(structure.unflatten([_LEAF] * structure.num_leaves))


_LEAF = object()


def _node(tree: Any) -> Any:
    if tree is _LEAF:
        return 0
    if tree is None:
        return None
    if type(tree) in (tuple, list):
        return [type(tree).__name__, *map(_node, tree)]
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return {key: _node(value) for key, value in tree.items()}
    raise ValueError(f"the program takes or returns a {type(tree).__name__}")


def _structure(tree: Any) -> Any:
    return jax.tree.structure(_filled(tree))


def _filled(tree: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: _filled(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return {"tuple": tuple, "list": list}[tree[0]](map(_filled, tree[1:]))
    if tree != 0:
        raise ValueError(f"its description has {tree!r} instead of a container")
    return 0


def _tuple(numbers: Any) -> tuple[Any, ...]:
    return tuple(_tuple(each) if isinstance(each, list) else int(each) for each in numbers)


def _word(text: Any) -> Any:
    if text is not None and not isinstance(text, str):
        raise ValueError(f"its description has {text!r} instead of a string")
    return text
