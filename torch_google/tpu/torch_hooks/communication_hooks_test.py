# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    bf16_compress_wrapper,
)
from torch.nn.parallel import DistributedDataParallel

from torch_google.tpu.torch_hooks import communication_hooks


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("hook", [bf16_compress_hook, bf16_compress_wrapper(allreduce_hook)])
def test_bfloat16_is_sent_on_the_device(hook: object) -> None:
    model = DistributedDataParallel(nn.Linear(2, 1).to("tpu"))
    model.register_comm_hook(None, hook)
    model(torch.full((1, 2), 1.001, device="tpu")).backward()
    gradient = model.module.weight.grad
    assert gradient.tolist() == [[1.0, 1.0]]  # bfloat16 rounds 1.001 to 1


@pytest.mark.skipif(
    torch.version.cuda is not None, reason="a wheel for CUDA allows the hook on every device"
)
def test_the_cpu_refuses_it_as_before() -> None:
    model = DistributedDataParallel(nn.Linear(2, 1))
    with pytest.raises(TypeError, match="BF16 all reduce communication hook"):
        model.register_comm_hook(None, bf16_compress_hook)


def test_annotations_are_still_checked() -> None:
    def hook(state: object, bucket: int) -> None: ...

    hook.__annotations__["bucket"] = int
    hook.__name__ = bf16_compress_hook.__name__
    model = DistributedDataParallel(nn.Linear(2, 1).to("tpu"))
    with pytest.raises(ValueError, match=r"bucket annotation should be dist\.GradBucket"):
        model.register_comm_hook(None, hook)


def test_installing_again_changes_nothing() -> None:
    check = DistributedDataParallel._check_comm_hook
    communication_hooks.install()
    assert DistributedDataParallel._check_comm_hook is check
