# SPDX-License-Identifier: Apache-2.0
"""`Mesh`, a grid of devices with named axes, and `HybridMesh`, a mesh over several TPU slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform


class Mesh:
    """A grid of devices with named axes. `device_ids` are tpu device indices in row-major order.

    By default, the axes are named by their indices: "0", "1" and so on. Raises ValueError if the
    shape does not match the number of devices, if a device does not exist or occurs twice, or if
    the names do not match the shape.
    """

    def __init__(
        self,
        device_ids: Sequence[int] | np.ndarray,
        mesh_shape: Sequence[int],
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.device_ids = [int(index) for index in np.asarray(device_ids).reshape(-1)]
        self.mesh_shape = tuple(int(size) for size in mesh_shape)
        names = map(str, range(len(self.mesh_shape))) if axis_names is None else axis_names
        self.axis_names = tuple(names)
        self._check()
        devices = np.empty(len(self.device_ids), object)
        devices[:] = [platform.device(index) for index in self.device_ids]
        self._jax_mesh = jax.sharding.Mesh(devices.reshape(self.mesh_shape), self.axis_names)

    @property
    def axis_sizes(self) -> dict[str, int]:
        """Return the number of devices along each axis, by name."""
        return dict(zip(self.axis_names, self.mesh_shape, strict=True))

    def size(self) -> int:
        """Return the number of devices in the mesh."""
        return len(self.device_ids)

    def shape(self) -> dict[str, int]:
        """Return the number of devices along each axis, by name and in order."""
        return self.axis_sizes

    def get_logical_mesh(self) -> np.ndarray:
        """Return the device ids as an array with the mesh's shape."""
        return np.array(self.device_ids).reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        """Return the index of the axis with this name, or None if it does not exist."""
        return self.axis_names.index(name) if name in self.axis_names else None

    def get_jax_mesh(self) -> jax.sharding.Mesh:
        """Return the mesh as a JAX mesh."""
        return self._jax_mesh

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._jax_mesh == other._jax_mesh

    def __hash__(self) -> int:
        return hash(self._jax_mesh)

    def __repr__(self) -> str:
        return f"Mesh({self.device_ids}, {self.mesh_shape}, {self.axis_names})"

    def _check(self) -> None:
        if math.prod(self.mesh_shape) != len(self.device_ids):
            raise ValueError(
                f"spmd.Mesh: the shape {self.mesh_shape} needs {math.prod(self.mesh_shape)} "
                f"devices, got {len(self.device_ids)} ids. Give one id for each position"
            )
        if len(self.axis_names) != len(self.mesh_shape) or len({*self.axis_names}) < len(
            self.axis_names
        ):
            raise ValueError(
                f"spmd.Mesh: {len(self.mesh_shape)} axes cannot be named {self.axis_names}. Give "
                "each axis one name, all different"
            )
        _C.start()
        count = platform.count()
        wrong = [index for index in self.device_ids if not 0 <= index < count]
        if wrong:
            raise ValueError(
                f"spmd.Mesh: no device tpu:{wrong[0]}; this process has {count} (0 to {count - 1}). "
                "On the platform cpu, TORCH_TPU_CPU_DEVICES sets the number"
            )
        if len({*self.device_ids}) < len(self.device_ids):
            raise ValueError(f"spmd.Mesh: a device occurs twice in {self.device_ids}")


class HybridMesh(Mesh):
    """A mesh over all devices of this process, in an order optimized for the network topology.

    `ici_mesh_shape` is the mesh's shape within a slice, whose chips are linked directly (ICI).
    `dcn_mesh_shape` is its shape across slices, which the slower data center network (DCN)
    connects; None means a single slice. The shape of the whole mesh is the elementwise product of
    the two. On platforms without slices, such as GPUs, each process counts as a slice.

    Raises ValueError if the devices cannot be arranged in these shapes.
    """

    def __init__(
        self,
        *,
        ici_mesh_shape: Sequence[int],
        dcn_mesh_shape: Sequence[int] | None = None,
        axis_names: Sequence[str] | None = None,
    ) -> None:
        self.ici_mesh_shape = tuple(map(int, ici_mesh_shape))
        if dcn_mesh_shape is None:
            dcn_mesh_shape = [1] * len(self.ici_mesh_shape)
        self.dcn_mesh_shape = tuple(map(int, dcn_mesh_shape))
        _C.start()
        ids = {platform.device(index): index for index in range(platform.count())}
        try:
            grid = _arranged(list(ids), self.ici_mesh_shape, self.dcn_mesh_shape)
        except (ValueError, NotImplementedError) as error:
            raise ValueError(
                f"spmd.HybridMesh: {len(ids)} devices do not fit ici_mesh_shape "
                f"{self.ici_mesh_shape} and dcn_mesh_shape {self.dcn_mesh_shape}: {error}"
            ) from error
        super().__init__([ids[device] for device in grid.flat], grid.shape, axis_names)


def _arranged(devices: list[Any], ici: tuple[int, ...], dcn: tuple[int, ...]) -> np.ndarray:
    if len(ici) != len(dcn):
        raise ValueError(f"{len(ici)} and {len(dcn)} axes; give both shapes the same number")
    if math.prod(dcn) == 1:
        return mesh_utils.create_device_mesh(ici, devices)
    return mesh_utils.create_hybrid_device_mesh(
        ici, dcn, devices, process_is_granule=not hasattr(devices[0], "slice_index")
    )


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    """Return a mesh with a single axis over all devices of this process."""
    _C.start()
    count = platform.count()
    return Mesh(range(count), (count,), None if axis_name is None else (axis_name,))


def set_global_mesh(mesh: Mesh | None) -> None:
    """Set the mesh that FullyShardedDataParallel uses by default."""
    _global.clear()
    if mesh is not None:
        _global.append(mesh)


def get_global_mesh() -> Mesh | None:
    """Return the mesh that was last passed to `set_global_mesh`, or None if none was."""
    return _global[0] if _global else None


_global: list[Mesh] = []
