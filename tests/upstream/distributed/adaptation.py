# SPDX-License-Identifier: Apache-2.0
"""Adapt upstream's distributed tests to devices other than CUDA.

Many of these tests hard-code CUDA and NCCL. `RULES` rewrites such names while a test module is
being imported, without changing the file. `complete_torch` restores names that the tests of v2.6.0
import and that later releases have removed.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.upstream.distributed import device_use

# The number of devices. It is the largest number of ranks in a test, because torch's base classes
# use the CPU if a test has more ranks than devices.
COUNT = 8
# The number of ranks in a test of fully_shard that does not specify a number.
_DEFAULT_RANKS = 4
BACKEND = {"cpu": "gloo", "tpu": "cpu:gloo,tpu:tpu"}

# An argument list with at most one level of nested parentheses.
_ARGUMENTS = r"((?:[^()]|\([^()]*\))+)"


@dataclasses.dataclass(frozen=True)
class Rule:
    """A pattern in a test's source, and its replacement for each device."""

    pattern: str
    tpu: str
    cpu: str


RULES = (
    # test_dtensor_ops hard-codes the CPU, although it supports other devices. Its list of
    # unsupported operators contains an operator that torch has removed since v2.6.0.
    Rule(r'(?m)^DEVICE_TYPE = "cpu"$', 'DEVICE_TYPE = "tpu"', 'DEVICE_TYPE = "cpu"'),
    Rule(r'\bxfail\("linalg\.det", "singular"\),', "", ""),
    # In test_convolution_ops, each rank stores the batches of all iterations, 0.5 GB per iteration.
    Rule(r"(?m)^ITER_TIME = 10$", *2 * ("ITER_TIME = 2",)),
    # Report COUNT devices, even on the CPU.
    Rule(r"\btorch\.cuda\.device_count\(\)", str(COUNT), str(COUNT)),
    Rule(r"\btorch\.cuda\.is_available\(\)", "True", "True"),
    Rule(r"\b(dist\.)?is_nccl_available\(\)", "True", "True"),
    Rule(r"\b(not|and|or|if) TEST_(CUDA|MULTIGPU)\b", r"\1 True", r"\1 True"),
    # Sleep on the host instead of delaying the device. The argument is in milliseconds.
    Rule(r"\btorch\.cuda\._sleep\(", *2 * ('__import__("time").sleep(1e-3 * ',)),
    Rule(r"\bget_cycles_per_ms\(\)", "1", "1"),
    # GradScaler's default device is CUDA.
    Rule(r"\bGradScaler\((?=init_scale)", 'GradScaler("tpu", ', 'GradScaler("cpu", '),
    # torch rejects `device_ids` for modules on the CPU.
    Rule(r",\s*device_ids=\[self\.rank\]", ", device_ids=[self.rank]", ""),
    # Omit the index of a CPU device. For the CPU, the seeding functions are in `torch` itself.
    Rule(r"\btorch\.device\(\s*[\"']cuda[\"'],\s*" + _ARGUMENTS + r"\)",
         r'torch.device("tpu", \1)', 'torch.device("cpu")'),
    Rule(r"\btorch\.cuda\.((?:manual|initial)_seed)", r"torch.tpu.\1", r"torch.\1"),
    Rule(r"\.cuda\(\)", '.to("tpu")', ".cpu()"),
    Rule(r"(?<!torch)\.cuda\(" + _ARGUMENTS + r"\)", r'.to(torch.device("tpu", \1))', ".cpu()"),
    Rule(r"\.is_cuda\b", ".is_tpu", ".is_cpu"),
    Rule(r"\bcpu:gloo,cuda:nccl\b", BACKEND["tpu"], BACKEND["cpu"]),
    Rule(r"([\"'])nccl\1", rf"\1{BACKEND['tpu']}\1", rf"\1{BACKEND['cpu']}\1"),
    Rule(r"\bcuda:(\d|\{[^}]*\})", r"tpu:\1", "cpu"),
    Rule(r"(?<!backends\.)\bcuda\b", "tpu", "cpu"),
)  # fmt: skip


def adapt(source: str, device: str) -> str:
    """Return a test module's source, rewritten for a device."""
    for rule in RULES:
        source = re.sub(rule.pattern, rule.tpu if device == "tpu" else rule.cpu, source)
    return source


def install(device: str, paths: Sequence[Path]) -> None:
    """Install an import hook that rewrites modules in `paths`, which may be files or folders."""
    sys.meta_path.insert(0, _Finder(device, paths))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, device: str, paths: Sequence[Path]) -> None:
        self._device = device
        self._paths = {*paths}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        file = Path(spec.loader.path)
        if self._paths.isdisjoint([file, *file.parents]):
            return None
        spec.loader = _Loader(name, str(file), self._device)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, device: str) -> None:
        super().__init__(name, path)
        self._device = device

    def get_code(self, fullname: str) -> CodeType:
        # Bypass the bytecode cache, because the rewritten source depends on the device.
        source = self.get_data(self.path).decode()
        return compile(adapt(source, self._device), self.path, "exec", dont_inherit=True)


def complete_torch() -> None:
    """Make torch act like v2.6.0: restore removed names, and do not scale pipelines' gradients."""
    for (module, name), value in _REMOVED.items():
        target = importlib.import_module(module)
        if not hasattr(target, name):
            setattr(target, name, value)
    from torch.distributed.pipelining import schedules
    from torch.distributed.tensor import _op_schema

    if not hasattr(_op_schema, "PlacementStrategy"):
        _op_schema.PlacementStrategy = _op_schema.OpSpec  # PlacementStrategy's new name
    # Later releases divide gradients by the number of microbatches by default; v2.6.0 does not.
    schedules._PipelineSchedule.scale_grads = property(lambda self: False, lambda self, value: None)


def _raises(name: str) -> Callable[..., Any]:
    def removed(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"torch has removed {name} since v2.6.0")

    return removed


def _unchanged(*args: object, **kwargs: object) -> Callable[[Any], Any]:
    return lambda function: function


# Replacements for names that test modules import and torch has removed. A test that calls a removed
# function fails on tpu and on the CPU.
_REMOVED: dict[tuple[str, str], Any] = {
    ("torch.distributed._tensor.experimental._attention", "_AttentionContextParallel"): _raises(
        "_AttentionContextParallel"
    ),
    ("torch.distributed.pipelining._utils", "PipeliningShapeError"): type(
        "PipeliningShapeError", (Exception,), {}
    ),
    ("torch.distributed.tensor.debug", "_get_sharding_prop_cache_info"): _raises(
        "_get_sharding_prop_cache_info"
    ),
    # This decorator ran each test twice, eagerly and compiled. Its replacement runs it eagerly.
    ("torch.testing._internal.common_fsdp", "test_compiled_fsdp"): _unchanged,
    ("torch.testing._internal.inductor_utils", "HAS_CUDA"): False,
}


def adapt_framework(device: str) -> None:
    """Make torch's framework for distributed tests use COUNT devices of type `device`.

    Call this function before importing a test module.
    """
    from torch.testing._internal import common_distributed

    decorate = {
        "skip_if_lt_x_gpu": lambda least, **_: unittest.skipIf(
            least > COUNT, f"needs {least} devices"
        ),
        "requires_nccl": _unchanged,
        "requires_nccl_version": _unchanged,
        "requires_accelerator_dist_backend": _unchanged,
        "at_least_x_gpu": lambda least: least <= COUNT,
    }
    for name, value in decorate.items():
        setattr(common_distributed, name, value)
    _adapt_reused_processes(common_distributed, device)
    _adapt_threads(common_distributed, device)

    from torch.testing._internal import common_fsdp
    from torch.testing._internal.distributed import fake_pg, multi_threaded_pg  # noqa: F401
    from torch.testing._internal.distributed._shard import sharded_tensor
    from torch.testing._internal.distributed._tensor import common_dtensor

    common_fsdp.DEVICE_TYPE = device
    common_fsdp.DISTRIBUTED_BACKEND = BACKEND[device]
    # A rank selects the device whose index is the rank modulo DEVICE_COUNT.
    common_fsdp.DEVICE_COUNT = COUNT
    for base in (common_fsdp.FSDPTest, common_fsdp.FSDPTestMultiThread):
        base.world_size = property(lambda _: _DEFAULT_RANKS)
    # Treat tpu like XPU: the framework then selects a device for each rank, and implements delays
    # with time.sleep instead of a CUDA kernel.
    common_fsdp.TEST_XPU = device == "tpu"

    import torch.distributed as dist

    for backend in ("fake", "threaded"):
        if device not in dist.Backend.backend_capability[backend]:
            dist.Backend.backend_capability[backend].append(device)

    def backend_of(self: Any) -> str:
        return BACKEND["tpu" if self.device_type == "tpu" else "cpu"]

    # DTensorTestBase would look up the device's backend in a table that has no entry for tpu.
    common_dtensor.DTensorTestBase.backend = property(backend_of)
    _select_device(common_dtensor.DTensorTestBase, device)

    def init_pg(self: Any, backend: str = "") -> None:
        dist.init_process_group(
            backend=backend,
            world_size=self.world_size,
            rank=self.rank,
            init_method=f"file://{self.file_name}",
        )

    # Upstream's init_pg rejects a backend string that names devices, such as "cpu:gloo,tpu:tpu".
    sharded_tensor.ShardedTensorTestBase.init_pg = init_pg
    # By default, with_comms uses NCCL, and skips the test on devices other than CUDA. Pass only the
    # device's backend: if a group has several backends, a ShardedTensor prefers the CPU's backend.
    backend_of_device = BACKEND[device].rpartition(":")[2]
    sharded_tensor.with_comms = functools.partial(
        sharded_tensor.with_comms, backend=backend_of_device
    )
    _select_device(sharded_tensor.ShardedTensorTestBase, device)


def _select_device(base: Any, device: str) -> None:
    """Make each rank of `base` select its device before it creates its group.

    Upstream does so for NCCL, but not for tpu.
    """
    create = base.init_pg

    def init_pg(self: Any, *args: Any, **kwargs: Any) -> None:
        if device == "tpu":
            import torch

            torch.accelerator.set_device_index(self.rank)
        create(self, *args, **kwargs)

    base.init_pg = init_pg


def _adapt_reused_processes(common_distributed: Any, device: str) -> None:
    """Give each of the two ranks of MultiProcContinuousTest a device; restore the class's old name.

    Also start new processes after a failed test; otherwise the class skips the remaining tests.
    """
    base = common_distributed.MultiProcContinuousTest
    create = base._init_pg.__func__

    def _init_pg(cls: Any, rank: int, world_size: int, file: str) -> None:
        import torch

        if device == "tpu":
            torch.accelerator.set_device_index(rank)
        cls.device = torch.device(device, rank) if device == "tpu" else torch.device(device)
        create(cls, rank, world_size, file)

    run = base._run_test_given_id.__func__

    def _run_test_given_id(cls: Any, *args: Any, **kwargs: Any) -> None:
        # Report the use of tpu after each test. A rank usually reports it on exit, but these
        # processes run all tests of a class.
        with device_use.reporting():
            run(cls, *args, **kwargs)

    set_up = base.setUp

    def setUp(self: Any) -> None:
        cls = type(self)
        if cls.poison_pill:
            for process in cls.processes:
                process.kill()
            cls.poison_pill = cls._processes_spawned = False
        set_up(self)

    base.setUp = setUp
    base._init_pg = classmethod(_init_pg)
    base._run_test_given_id = classmethod(_run_test_given_id)
    base.world_size = 2
    common_distributed.MultiProcContinousTest = base


def _adapt_threads(common_distributed: Any, device: str) -> None:
    """Initialize the backend before a test starts its ranks as threads.

    If the backend is uninitialized when the threads create a mesh, each thread selects a different
    device. But the threads of a group must be able to compute with each other's tensors.
    """
    base = common_distributed.MultiThreadedTestCase
    spawn = base._spawn_threads

    def _spawn_threads(self: Any) -> None:
        if device == "tpu":
            import torch

            torch.tpu.init()
        spawn(self)

    base._spawn_threads = _spawn_threads
