# SPDX-License-Identifier: Apache-2.0

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tools.par.testing.budget import only_full
from torch_google.tpu import _C
from torch_google.tpu.runtime import heap, platform

# Each iteration frees a tensor of 48 or 80 MiB. Both sizes are more than glibc keeps by default (48
# MiB is 12,288 pages), and 80 MiB exceeds the limit of a per-thread arena. Neither size is close to
# 128 MiB, because such blocks do not fit into the holes that freed blocks leave. The first
# iterations extend the heap, because glibc cannot place an aligned block in a hole of the same
# size.
_PROGRAM = """
import resource
import statistics
import sys
import torch
import torch_google.tpu
torch_google.tpu.autoload()
x = torch.ones(int(sys.argv[1]) << 18, device="tpu")
faults = []
for _ in range(40):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = x + 1
    torch.tpu.synchronize()
    del y
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(int(statistics.median(faults[-15:])))
"""

# Each iteration replaces the value of a tensor with the result of a collective. The first two
# iterations extend the heap by one block each.
_COLLECTIVE = """
import resource
import sys
import torch
import torch.distributed as dist
import torch_google.tpu
torch_google.tpu.autoload()
dist.init_process_group("tpu", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(int(sys.argv[1]) << 18, device="tpu")
faults = []
for _ in range(20):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    dist.all_reduce(x)
    torch.tpu.synchronize()
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(max(faults[2:]))
dist.destroy_process_group()
"""

# The result of the collective does not fit into the address space. malloc uses mmap for blocks
# this large, so the result cannot use a free block on the heap. The program prints the error, and
# then the result of another collective in the same group.
_NO_MEMORY = """
import resource
import torch
import torch.distributed as dist
import torch_google.tpu
torch_google.tpu.autoload()
dist.init_process_group("tpu", store=dist.HashStore(), rank=0, world_size=1)
large, small = torch.ones(1 << 26, device="tpu"), torch.ones(5, device="tpu")
dist.all_reduce(small)
torch.tpu.synchronize()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    dist.all_reduce(large)
except torch.OutOfMemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
dist.all_reduce(small)
print(small.tolist())
dist.destroy_process_group()
"""


def faults(
    mebibytes: int = 48, named: str | None = "cpu", program: str = _PROGRAM, **variables: str
) -> int:
    prefixes = ("MALLOC_", "GLIBC_", "TORCH_TPU_KEEP_HEAP", "TORCH_TPU_PLATFORM", "JAX_PLATFORMS")
    known = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    environ = known | ({"TORCH_TPU_PLATFORM": named} if named else {}) | variables
    return int(_output(program, environ, str(mebibytes)))


def _output(program: str, environ: Mapping[str, str], *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is of Linux")
@pytest.mark.parametrize("mebibytes", [80, *only_full(48)])
def test_what_is_freed_is_used_again(mebibytes: int) -> None:
    assert faults(mebibytes) < 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is of Linux")
def test_a_collective_uses_the_memory_of_the_value_that_it_replaces() -> None:
    assert faults(16, program=_COLLECTIVE) < 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_a_collective_without_memory_for_its_result_is_an_error() -> None:
    error, result = _output(_NO_MEMORY, {**os.environ, "TORCH_TPU_PLATFORM": "cpu"}).splitlines()
    assert "the host has no memory for 268435456 bytes. Use smaller tensors" in error
    assert result == "[1.0, 1.0, 1.0, 1.0, 1.0]"


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is of Linux")
@pytest.mark.parametrize(
    ("variable", "value"), [("MALLOC_TOP_PAD_", "131072"), ("TORCH_TPU_KEEP_HEAP", "0")]
)
def test_the_users_settings_of_malloc_win(variable: str, value: str) -> None:
    assert faults(80, "cpu", **{variable: value}) > 10000


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is of Linux")
def test_a_platform_that_was_not_named_finds_its_threads_in_one_heap_too() -> None:
    _C.start()
    if platform.name() != "cpu":
        pytest.skip("malloc keeps the heap only on the platform cpu")
    assert faults(80, named=None) < 1000


def test_a_configured_malloc_is_left_alone() -> None:
    assert not heap.keep({"MALLOC_ARENA_MAX": "2"})
    assert not heap.keep({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})


def test_it_can_be_switched_off() -> None:
    assert not heap.keep({"TORCH_TPU_KEEP_HEAP": "0"})
    with pytest.raises(ValueError, match="TORCH_TPU_KEEP_HEAP=no; use 0 or 1"):
        heap.keep({"TORCH_TPU_KEEP_HEAP": "no"})
