# SPDX-License-Identifier: Apache-2.0
"""`FullyShardedDataParallel`, which shards parameters, gradients and optimizer state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from torch_google.tpu.spmd.loading import ShardingSpec, shard_batch
from torch_google.tpu.spmd.marking import (
    is_sharded,
    mark_sharding,
    mark_sharding_with_gradients,
    shard_like,
)
from torch_google.tpu.spmd.mesh import Mesh, get_1d_mesh, get_global_mesh
from torch_google.tpu.spmd.partition_spec import Spec
from torch_google.tpu.spmd.wrap_policies import wrap_children

_AXIS = "fsdp"


class FullyShardedDataParallel(nn.Module):
    """A wrapper that shards a module, so that each device holds a shard of every parameter.

    A parameter is split along the first dimension whose size is a multiple of the number of
    devices. If it has no such dimension, it is replicated, as are all buffers. Gradients and the
    optimizer's state are sharded like their parameters. Parameters that are already sharded keep
    their sharding.

    If `mesh` has several axes, one must be named `fsdp`. The default is the global mesh or, if none
    is set, a mesh of all devices. `shard_output(output, mesh)` either returns the sharded output or
    marks its tensors in place and returns None. By default, the first tensor in the output is split
    along its first dimension, the batch.

    `auto_wrap_policy` chooses submodules to wrap first. Each is wrapped by
    `auto_wrapper_callable(module, **options)`, which is this class by default. The submodules'
    outputs are sharded in the same way.

    A module on the CPU is copied to tpu in shards. Create the optimizer after wrapping the module.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        mesh: Mesh | None = None,
        shard_output: Callable[[Any, Mesh], Any] | None = None,
        auto_wrap_policy: Callable[..., bool] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError("spmd: the module is a FullyShardedDataParallel already")
        self._mesh = mesh or get_global_mesh() or get_1d_mesh(_AXIS)
        self._axis = _axis_of(self._mesh)
        self._shard_output = shard_output
        if auto_wrap_policy is not None:
            make = auto_wrapper_callable or FullyShardedDataParallel
            own_mesh = self._mesh

            def wrap(child: nn.Module) -> nn.Module:
                return make(child, mesh=own_mesh, shard_output=shard_output)

            wrap_children(module, auto_wrap_policy, wrap)
        self.module = module
        self._shard()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module and shard its output."""
        output = self.module(*args, **kwargs)
        if self._shard_output is not None:
            replaced = self._shard_output(output, self._mesh)
            return output if replaced is None else replaced
        return self._split(output)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def _shard(self) -> None:
        for tensor, is_parameter in _tensors(self.module):
            if is_sharded(tensor):
                continue
            spec = self._spec(tensor) if is_parameter else (None,) * tensor.dim()
            if tensor.device.type == "cpu":
                tensor.data = shard_batch(tensor.data, ShardingSpec(self._mesh, spec))
            else:
                mark_sharding(tensor, self._mesh, spec)
            if tensor.requires_grad:
                tensor.register_post_accumulate_grad_hook(_shard_gradient)

    def _spec(self, tensor: torch.Tensor) -> Spec:
        devices = self._mesh.axis_sizes[self._axis]
        for dimension, size in enumerate(tensor.shape):
            if size and size % devices == 0:
                return tuple(
                    self._axis if index == dimension else None for index in range(tensor.dim())
                )
        return (None,) * tensor.dim()

    def _split(self, output: Any) -> Any:
        """Shard the output's first tensor along its batch dimension, if the split is even."""
        leaves, structure = pytree.tree_flatten(output)
        devices = self._mesh.axis_sizes[self._axis]
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                if leaf.dim() and leaf.shape[0] % devices == 0:
                    spec = (self._axis, *[None] * (leaf.dim() - 1))
                    leaves[index] = mark_sharding_with_gradients(leaf, self._mesh, spec)
                break
        return pytree.tree_unflatten(leaves, structure)


def _axis_of(mesh: Mesh) -> str:
    if _AXIS in mesh.axis_names:
        return _AXIS
    if len(mesh.axis_names) == 1:
        return mesh.axis_names[0]
    raise ValueError(
        f"spmd.FullyShardedDataParallel: the mesh has the axes {', '.join(mesh.axis_names)}, none of "
        f"them '{_AXIS}'. Name the axis over which parameters are split '{_AXIS}'"
    )


def _tensors(module: nn.Module) -> Iterator[tuple[torch.Tensor, bool]]:
    for parameter in module.parameters():
        yield parameter, True
    for buffer in module.buffers():
        yield buffer, False


def _shard_gradient(parameter: torch.Tensor) -> None:
    """Shard a parameter's gradient like the parameter."""
    gradient = parameter.grad
    if gradient is not None:
        shard_like(gradient, parameter)
