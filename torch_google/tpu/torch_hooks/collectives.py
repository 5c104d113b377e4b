# SPDX-License-Identifier: Apache-2.0
"""torch.distributed where the device is: gloo for what lies on the CPU, a clear word for the rest.

It is the backend `tpu` of torch's registry, which torch takes for a process group that names none.
Imported with the first such group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo

from torch_google.tpu.release import V2_6

# Where a refusal has its place. torch's own kernels of c10d for every device ask the group, and it
# would only say that it has no backend: what comes before them is the key of autograd.
_KEYS = {"c10d": "AutogradPrivateUse1", "_c10d_functional": "PrivateUse1"}
# It waits for a result, of which there is none.
_ALLOWED = {"wait_tensor"}


def group(options: Any, more: Any) -> ProcessGroup:
    """Make a group, as torch's registry of backends asks: `options` has its store, rank and size.

    Raises ValueError where `more` is given: the backend has no options.
    """
    if more is not None:
        raise ValueError(
            f"tpu: init_process_group: found pg_options of {type(more).__name__}, and the backend "
            "tpu has none. Leave them out"
        )
    _REFUSALS.install()
    made = ProcessGroup(options.store, options.group_rank, options.group_size)
    gloo = ProcessGroupGloo(
        options.store, options.group_rank, options.group_size, timeout=options.timeout
    )
    if not V2_6:
        # As torch's own groups of gloo have it.
        gloo.options.global_ranks_in_group = options.global_ranks_in_group
        gloo.options.group_name = options.group_id
    gloo._set_sequence_number_for_group()
    made._set_default_backend(ProcessGroup.BackendType.GLOO)
    made._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
    return made


class _Refusals:
    """Kernels of tpu for torch's collectives, which say that there are none."""

    def __init__(self) -> None:
        self._libraries: list[torch.library.Library] = []

    def install(self) -> None:
        """Register them. A second call does nothing."""
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
        found, _, op = name.partition("::")
        if found == space and op not in _ALLOWED:
            yield op


def _refusing(op: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any) -> NoReturn:
        raise NotImplementedError(
            f"tpu: torch.distributed: {op.strip('_')} was given a tensor on tpu, and the device has "
            "no collectives yet. Move it to the CPU, for gloo"
        )

    return refuse
