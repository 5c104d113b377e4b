# SPDX-License-Identifier: Apache-2.0
"""The backend `tpu` of torch.distributed: gloo for CPU tensors, clear errors for tpu tensors.

torch chooses it for a process group that names no backend. It is imported when the first such group
is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo

from torch_google.tpu.release import V2_6

# The dispatch key of the kernels that raise. torch's own c10d kernels ask the group, which would
# only report a missing backend; the autograd key comes before them.
_KEYS = {"c10d": "AutogradPrivateUse1", "_c10d_functional": "PrivateUse1"}
# This operator only waits for results, and there are none.
_ALLOWED = {"wait_tensor"}


def group(options: Any, more: Any) -> ProcessGroup:
    """Create a process group for torch's backend registry. `options` has store, rank and size.

    Raises ValueError if `more` (pg_options) is given, because the backend has no options.
    """
    if more is not None:
        raise ValueError(
            f"tpu: init_process_group: found pg_options of {type(more).__name__}, but the backend "
            "tpu has no options. Leave them out"
        )
    _REFUSALS.install()
    result = ProcessGroup(options.store, options.group_rank, options.group_size)
    gloo = ProcessGroupGloo(
        options.store, options.group_rank, options.group_size, timeout=options.timeout
    )
    if not V2_6:
        # torch does the same for its own gloo groups.
        gloo.options.global_ranks_in_group = options.global_ranks_in_group
        gloo.options.group_name = options.group_id
    gloo._set_sequence_number_for_group()
    result._set_default_backend(ProcessGroup.BackendType.GLOO)
    result._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    return result


class _Refusals:
    """Kernels for torch's collectives on tpu; all raise NotImplementedError."""

    def __init__(self) -> None:
        self._libraries: list[torch.library.Library] = []

    def install(self) -> None:
        """Register the kernels. Idempotent."""
        if self._libraries:
            return
        for space, key in _KEYS.items():
            library = torch.library.Library(space, "IMPL")
            self._libraries.append(library)
            for op in _operators(space):
                library.impl(op, _refusing(op), key)


_REFUSALS = _Refusals()


def _operators(space: str) -> Iterator[str]:
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, op = name.partition("::")
        if namespace == space and op not in _ALLOWED:
            yield op


def _refusing(op: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any) -> NoReturn:
        raise NotImplementedError(
            f"tpu: torch.distributed: {op.strip('_')} was given a tensor on tpu, and the device has "
            "no collectives yet. Move it to the CPU to use gloo"
        )

    return refuse
