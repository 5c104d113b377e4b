# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu` and torch.accelerator calls return the same values in compiled and in eager code.

A call breaks the graph only if the same call to torch.cuda does, or if the call reads or changes
state outside the graph.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo import device_interface, trace_rules
from torch._dynamo.utils import counters
from torch._dynamo.variables import SkipFunctionVariable, TorchInGraphFunctionVariable
from torch._dynamo.variables import torch as folding

from torch_google.tpu.release import V2_6
from torch_google.tpu.torch_hooks import dynamo_rules

pytestmark = pytest.mark.skipif(V2_6, reason="v2.6's Dynamo cannot trace torch.accelerator")

BACKENDS = ["eager", "aot_eager", "tpu"]


def _device_in(block: Callable[[], Any]) -> int:
    with block():
        return torch.tpu.current_device()


def _is_current_in(block: Callable[[], Any], stream: torch.Stream | None) -> bool:
    with block():
        return torch.tpu.current_stream() == (stream or torch.tpu.default_stream())


_DEFAULT, _STREAM = torch.tpu.default_stream(), torch.Stream(device="tpu")
_STATE = torch.zeros(16, dtype=torch.uint8)

# Maps the name of a function to calls to that function that do not break the graph.
TRACED: dict[str, list[Callable[[], object]]] = {
    "Event": [lambda: type(torch.tpu.Event())],
    "Stream": [lambda: torch.tpu.Stream(priority=-1).device],
    "can_device_access_peer": [lambda: torch.tpu.can_device_access_peer(0, "tpu:0")],
    "current_device": [lambda: torch.tpu.current_device()],
    "current_stream": [
        lambda: torch.tpu.current_stream(),
        lambda: torch.tpu.current_stream(0),
        lambda: torch.tpu.current_stream("tpu:0"),
        lambda: torch.tpu.current_stream().wait_stream(torch.tpu.Stream(priority=-1)),
        lambda: type(torch.tpu.current_stream().record_event()),
    ],
    "default_stream": [lambda: torch.tpu.default_stream(), lambda: torch.tpu.default_stream(0)],
    "device": [
        lambda: _device_in(lambda: torch.tpu.device(0)),
        lambda: _device_in(lambda: torch.tpu.device("tpu:0")),
        lambda: _device_in(lambda: torch.tpu.device(torch.device("tpu", 0))),
        lambda: _device_in(lambda: torch.tpu.device("tpu")),
        lambda: _device_in(lambda: torch.tpu.device(None)),
        lambda: _device_in(lambda: torch.tpu.device(-1)),
    ],
    "device_count": [lambda: torch.tpu.device_count()],
    "empty_cache": [lambda: torch.tpu.empty_cache()],
    "get_amp_supported_dtype": [lambda: torch.tpu.get_amp_supported_dtype()],
    "get_arch_list": [lambda: torch.tpu.get_arch_list()],
    "get_compile_cache": [lambda: torch.tpu.get_compile_cache()],
    "get_device_capability": [lambda: torch.tpu.get_device_capability(0)],
    "get_device_name": [
        lambda: torch.tpu.get_device_name(),
        lambda: torch.tpu.get_device_name("tpu:0"),
    ],
    "get_device_properties": [
        lambda: torch.tpu.get_device_properties(),
        lambda: torch.tpu.get_device_properties(0).total_memory,
    ],
    "get_program_limit": [lambda: torch.tpu.get_program_limit()],
    "init": [lambda: torch.tpu.init()],
    "ipc_collect": [lambda: torch.tpu.ipc_collect()],
    "is_available": [lambda: torch.tpu.is_available()],
    "is_bf16_supported": [
        lambda: torch.tpu.is_bf16_supported(),
        lambda: torch.tpu.is_bf16_supported(including_emulation=False),
    ],
    "is_initialized": [lambda: torch.tpu.is_initialized()],
    "stream": [
        lambda: _is_current_in(lambda: torch.tpu.stream(_STREAM), _STREAM),
        lambda: _is_current_in(lambda: torch.tpu.stream(None), None),
    ],
    "synchronize": [lambda: torch.tpu.synchronize(), lambda: torch.tpu.synchronize(0)],
}

# Calls that each break the graph once. None changes state that the other tests depend on.
BROKEN: dict[str, Callable[[], object]] = {
    "get_cpu_kernels": lambda: torch.tpu.get_cpu_kernels(),
    "get_eager_mode": lambda: torch.tpu.get_eager_mode(),
    "get_per_process_memory_fraction": lambda: torch.tpu.get_per_process_memory_fraction(),
    "get_precision": lambda: torch.tpu.get_precision(),
    "get_rng_state": lambda: torch.tpu.get_rng_state().tolist(),
    "get_rng_state_all": lambda: [state.tolist() for state in torch.tpu.get_rng_state_all()],
    "get_size_buckets": lambda: torch.tpu.get_size_buckets(),
    "initial_seed": lambda: torch.tpu.initial_seed(),
    "manual_seed": lambda: torch.tpu.manual_seed(3),
    "manual_seed_all": lambda: torch.tpu.manual_seed_all(3),
    "max_memory_allocated": lambda: type(torch.tpu.max_memory_allocated()),
    "max_memory_reserved": lambda: type(torch.tpu.max_memory_reserved()),
    "mem_get_info": lambda: torch.tpu.mem_get_info()[1],
    "memory_allocated": lambda: type(torch.tpu.memory_allocated()),
    "memory_reserved": lambda: type(torch.tpu.memory_reserved()),
    "memory_stats": lambda: sorted(torch.tpu.memory_stats()),
    "memory_stats_as_nested_dict": lambda: sorted(torch.tpu.memory_stats_as_nested_dict()),
    "memory_summary": lambda: torch.tpu.memory_summary()[:5],
    "metrics": lambda: type(torch.tpu.metrics()),
    "reset_accumulated_memory_stats": lambda: torch.tpu.reset_accumulated_memory_stats(),
    "reset_metrics": lambda: torch.tpu.reset_metrics(),
    "reset_peak_memory_stats": lambda: torch.tpu.reset_peak_memory_stats(),
    "seed": lambda: type(torch.tpu.seed()),
    "seed_all": lambda: torch.tpu.seed_all(),
    "set_cache_only": lambda: torch.tpu.set_cache_only(False),
    "set_compile_cache": lambda: torch.tpu.set_compile_cache(torch.tpu.get_compile_cache()),
    "set_cpu_kernels": lambda: torch.tpu.set_cpu_kernels(False),
    "set_device": lambda: torch.tpu.set_device("tpu:0"),
    "set_eager_mode": lambda: torch.tpu.set_eager_mode("strict"),
    "set_fused_limits": lambda: torch.tpu.set_fused_limits(),
    "set_per_process_memory_fraction": lambda: torch.tpu.set_per_process_memory_fraction(1.0),
    "set_precision": lambda: torch.tpu.set_precision("default"),
    "set_program_limit": lambda: torch.tpu.set_program_limit(None),
    "set_rng_state": lambda: torch.tpu.set_rng_state(_STATE),
    "set_rng_state_all": lambda: torch.tpu.set_rng_state_all([_STATE]),
    "set_size_buckets": lambda: torch.tpu.set_size_buckets(None),
    "set_stream": lambda: torch.tpu.set_stream(_DEFAULT),
    "set_thread_eager_mode": lambda: torch.tpu.set_thread_eager_mode(None),
    "wait_for_compiles": lambda: torch.tpu.wait_for_compiles(),
}

# Calls to torch.accelerator, and how many times each breaks the graph on CUDA.
ACCELERATOR: list[tuple[Callable[[], object], int]] = [
    (lambda: torch.accelerator.is_available(), 0),
    (lambda: torch.accelerator.current_accelerator(), 0),
    (lambda: torch.accelerator.current_device_index(), 0),
    (lambda: torch.accelerator.current_stream(), 0),
    (lambda: torch.accelerator.current_stream(0), 0),
    (lambda: torch.accelerator.synchronize(), 0),
    (lambda: torch.accelerator.synchronize(0), 0),
    (lambda: _device_in(lambda: torch.accelerator.device_index(0)), 0),
    (lambda: _is_current_in(lambda: _STREAM, _STREAM), 0),
    (lambda: torch.accelerator.device_count(), 1),
    (lambda: torch.accelerator.set_device_index(0), 1),
    (lambda: type(torch.accelerator.memory_allocated()), 1),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    counters.clear()


def _compiled(call: Callable[[], object], backend: Any, whole: bool) -> Callable[[], object]:
    """Return a compiled function with a tensor operation before and after a call."""
    x = torch.zeros(2, device="tpu")

    def function(x: torch.Tensor) -> tuple[torch.Tensor, object]:
        y = x + 1
        result = call()
        return y * 2, result

    compiled = torch.compile(function, backend=backend, fullgraph=whole)

    def run() -> object:
        y, result = compiled(x)
        assert y.tolist() == [2.0, 2.0]
        return result

    return run


def _breaks() -> int:
    return int(counters["stats"]["unique_graphs"]) - 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRACED)
def test_calls_in_one_graph(name: str, backend: str) -> None:
    for call in TRACED[name]:
        expected = call()
        run = _compiled(call, backend, whole=True)
        assert [run(), run()] == [expected, expected]
        torch._dynamo.reset()


@pytest.mark.parametrize("name", BROKEN)
def test_calls_between_two_graphs(name: str) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[object]) -> Callable[..., object]:
        if inputs:  # the graph of a call's arguments has no inputs
            graphs.append(graph)
        return graph.forward

    assert f"torch.tpu.{name}" in dynamo_rules.BREAKING
    result = _compiled(BROKEN[name], backend, whole=False)()
    assert result == BROKEN[name]()
    assert len(graphs) == 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", range(len(ACCELERATOR)))
def test_the_current_accelerator(case: int, backend: str) -> None:
    call, breaks = ACCELERATOR[case]
    expected = call()
    assert _compiled(call, backend, whole=not breaks)() == expected
    assert _breaks() == breaks


def test_every_function_has_a_case() -> None:
    functions = {n for n in torch.tpu.__all__ if inspect.isfunction(getattr(torch.tpu, n))}
    assert functions - set(TRACED) - set(BROKEN) == set()
    assert {f"torch.tpu.{name}" for name in BROKEN} == set(dynamo_rules.BREAKING)


def _breaks_of_cuda(name: str) -> int | None:
    """Return the number of graph breaks that a call to the torch.cuda function `name` causes.

    Returns None if the number depends on the function's result.
    """
    function = getattr(torch.cuda, name, None)
    if trace_rules.lookup(function) is SkipFunctionVariable and inspect.isfunction(function):
        return 1
    folded = function in folding.constant_fold_functions
    handled = function in TorchInGraphFunctionVariable._get_handlers()
    return 0 if folded or handled or function is torch.cuda.device else None


def test_calls_break_the_graph_as_those_of_cuda_do() -> None:
    torch.compile(lambda x: x, backend="eager")  # registers the rules
    cuda = {name: _breaks_of_cuda(name) for name in (*TRACED, *BROKEN)}
    known = {name: breaks for name, breaks in cuda.items() if breaks is not None}
    assert {"device", "is_initialized", "manual_seed", "set_rng_state", "stream"} <= set(known)
    assert known == {name: int(name in BROKEN) for name in known}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_break_applies_the_effect_in_each_call(backend: str) -> None:
    seeded = _compiled(lambda: torch.tpu.manual_seed(5), backend, whole=False)
    restored = _compiled(lambda: torch.tpu.set_rng_state(_STATE), backend, whole=False)
    selected = _compiled(lambda: torch.tpu.set_stream(_STREAM), backend, whole=False)
    for _ in range(2):
        with torch.tpu.stream(torch.tpu.default_stream()):
            selected()
            assert torch.tpu.current_stream() == _STREAM
        torch.tpu.manual_seed(1)
        seeded()
        assert torch.tpu.initial_seed() == 5
        restored()
        assert torch.equal(torch.tpu.get_rng_state(), _STATE)


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_that_change_are_read_in_each_call(backend: str) -> None:
    seed = _compiled(lambda: torch.tpu.initial_seed(), backend, whole=False)
    memory = _compiled(lambda: torch.tpu.memory_allocated(), backend, whole=False)
    sizes, seeds = [], []
    for size in (10, 20):
        torch.tpu.manual_seed(size)
        seeds.append(seed())
        before = memory()
        kept = torch.zeros(size, device="tpu")
        sizes.append(memory() - before)  # type: ignore[operator]
        del kept
    assert (seeds, sizes) == ([10, 20], [40, 80])


def test_a_guard_notices_the_start_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(
        lambda x: (x + 1, torch.tpu.is_initialized()), backend="eager", fullgraph=True
    )
    x = torch.zeros(2)
    with monkeypatch.context() as patch:
        stopped = SimpleNamespace(started=lambda: False, is_device_selected=lambda: False)
        patch.setattr(torch.tpu, "_C", stopped)
        assert compiled(x)[1] is False
    assert compiled(x)[1] is True


def test_errors_of_unknown_devices() -> None:
    with pytest.raises(ValueError, match="no device tpu:99; this process has"):
        torch.compile(lambda x: (x + 1, torch.tpu.get_device_name(99)), backend="eager")(
            torch.zeros(2, device="tpu")
        )


def test_dynamo_has_an_interface_to_the_device() -> None:
    torch.compile(lambda x: x, backend="eager")
    interface = device_interface.get_interface_for_device("tpu")
    with interface.device(0):
        assert interface.current_device() == 0
    assert interface.device_count() == torch.tpu.device_count()
    assert interface.current_stream() == torch.tpu.current_stream()
    assert interface.exchange_device(0) == interface.maybe_exchange_device(0) == 0
    assert not interface.is_dtype_supported(torch.float64)  # torch's own result for this name


# Calls compiled functions that read or switch the current device, once for each device that is
# current before the call. Prints their results.
_TWO_DEVICES = """
import torch, torch_google.tpu
torch_google.tpu.autoload()

def blocks(x):
    current = [torch.tpu.current_device()]
    with torch.tpu.device(1):
        current.append(torch.tpu.current_device())
        with torch.tpu.device("tpu:0"):
            current.append(torch.accelerator.current_device_index())
        with torch.tpu.device(None):
            current.append(torch.tpu.current_device())
        with torch.accelerator.device_index(0):
            current.append(torch.tpu.current_device())
    ids = torch.tpu.get_device_properties().id, torch.tpu.get_device_properties(1).id
    return x + 1, current, ids, torch.tpu.device_count()

def broken(x):
    with torch.tpu.device(1):
        x = x + 1
        torch._dynamo.graph_break()
        inside = torch.tpu.current_device()
    return x + 1, inside, torch.tpu.current_device()

def creating(x):
    with torch.tpu.device(1):
        return x + 1, torch.ones(2, device="tpu")

def selecting(x):
    x = x + 1
    torch.tpu.set_device(1)
    return x + 1, torch.tpu.current_device()

x = torch.zeros(2, device="tpu:0")
for backend in ("eager", "aot_eager"):
    torch._dynamo.reset()
    functions = (blocks, True), (broken, False), (selecting, False)
    compiled = [torch.compile(f, backend=backend, fullgraph=whole) for f, whole in functions]
    for current in (0, 1, 0):
        for function in compiled:
            torch.tpu.set_device(current)
            _, *results = function(x)
            print(*results)
torch.tpu.set_device(0)
print(torch.compile(creating, backend="eager", fullgraph=True)(x)[1].device)
"""


@pytest.mark.full
def test_two_devices() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _TWO_DEVICES],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TORCH_TPU_PLATFORM": "cpu",
            "TORCH_TPU_CPU_DEVICES": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    expected = [
        line
        for current in (0, 1, 0)
        for line in (
            f"[{current}, 1, 0, 1, 0] ({current}, 1) 2",
            f"1 {current}",
            "1",
        )
    ]
    assert done.stdout.splitlines() == [*expected * 2, "tpu:1"], done.stderr
