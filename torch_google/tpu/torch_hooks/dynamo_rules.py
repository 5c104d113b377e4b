# SPDX-License-Identifier: Apache-2.0
"""Tells Dynamo how to trace calls to `torch.tpu`, using the same tables as for torch.cuda.

Dynamo inlines every function of `torch.tpu` that is in no table, and breaks the graph when the
function calls C++.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime.device_index import has_index, index_of
from torch_google.tpu.runtime.dynamo_skip import untraced

# Dynamo calls these functions while it traces, and uses their results as constants. That is safe
# because, within a process, the result for the same arguments never changes.
CONSTANT = (
    "torch.tpu.device_count",
    "torch.tpu.init",
    "torch.tpu.is_available",
    "torch.tpu.is_bf16_supported",
    "torch_google.tpu.device_module.properties.reported",
    "torch_google.tpu.runtime.device_index.started_devices",
)

# Like CONSTANT, but the result can change. A guard compares it before each call to the graph.
GUARDED = ("torch.tpu.is_initialized",)

# These functions break the graph, because they read or change state outside the graph: random
# numbers, memory, the current device and stream, and the settings of `torch.tpu`.
BREAKING = tuple(
    f"torch.tpu.{name}"
    for name in (
        "get_cpu_kernels",
        "get_eager_mode",
        "get_per_process_memory_fraction",
        "get_precision",
        "get_rng_state",
        "get_rng_state_all",
        "get_size_buckets",
        "initial_seed",
        "manual_seed",
        "manual_seed_all",
        "max_memory_allocated",
        "max_memory_reserved",
        "mem_get_info",
        "memory_allocated",
        "memory_reserved",
        "memory_stats",
        "memory_stats_as_nested_dict",
        "memory_summary",
        "metrics",
        "reset_accumulated_memory_stats",
        "reset_metrics",
        "reset_peak_memory_stats",
        "seed",
        "seed_all",
        "set_cache_only",
        "set_compile_cache",
        "set_cpu_kernels",
        "set_device",
        "set_eager_mode",
        "set_fused_limits",
        "set_per_process_memory_fraction",
        "set_precision",
        "set_program_limit",
        "set_rng_state",
        "set_rng_state_all",
        "set_size_buckets",
        "set_stream",
        "set_thread_eager_mode",
        "wait_for_compiles",
    )
)

_taught = False


def teach() -> None:
    """Add the functions of `torch.tpu` to Dynamo's tables. Loads Dynamo. Idempotent.

    A no-op on torch v2.6, whose Dynamo cannot trace torch.accelerator.
    """
    global _taught
    if _taught or V2_6:
        return
    _taught = True
    _add_trace_rules()
    _add_device_context()
    _add_device_interface()


def _add_trace_rules() -> None:
    from torch._dynamo import trace_rules
    from torch._dynamo.variables import SkipFunctionVariable, TorchInGraphFunctionVariable
    from torch._dynamo.variables import torch as folding

    rules = trace_rules.manual_torch_name_rule_map
    for name in (*CONSTANT, *GUARDED):
        rules[name] = TorchInGraphFunctionVariable
        folding.constant_fold_functions[trace_rules.load_object(name)] = None
    for name in GUARDED:
        folding.constant_fold_functions_need_guards[trace_rules.load_object(name)] = None
    for name in BREAKING:
        rules[name] = SkipFunctionVariable
        # After the graph break, Python runs the function. Without this, Dynamo would then trace
        # the function's own frame.
        untraced(trace_rules.load_object(name))
    trace_rules.get_torch_obj_rule_map.cache_clear()


def _add_device_context() -> None:
    from torch._dynamo.variables import ConstantVariable, ctx_manager

    class DeviceVariable(ctx_manager.AcceleratorDeviceIndexVariable):
        """Dynamo's representation of torch.tpu.device."""

        _get_device_index_fn = staticmethod(_target_index)

        def enter(self, tx: Any) -> Any:
            return super().enter(tx) if self._switches() else ConstantVariable.create(None)

        def exit(self, tx: Any, *args: Any) -> Any:
            return super().exit(tx, *args) if self._switches() else ConstantVariable.create(False)

        def _switches(self) -> bool:
            return self.target_values[0] >= 0

        def module_name(self) -> str:
            return "torch.tpu"

        def fn_name(self) -> str:
            return "device"

        def python_type(self) -> type:
            return torch.tpu.device

    ctx_manager.register_device_context_manager(torch.tpu.device, DeviceVariable)


def _target_index(device: Any, optional: bool = True) -> int:
    """Return the index of a device, or -1 if the argument contains no index.

    -1 means the current device, so `with torch.tpu.device(...)` does not switch devices.
    """
    return index_of(device) if has_index(device) else -1


def _add_device_interface() -> None:
    from torch._dynamo import device_interface

    torchs: Any = device_interface.get_interface_for_device("tpu")

    class Interface(torchs):
        """torch's device interface for `tpu`, extended with the functions of `torch.tpu`."""

        device = torch.tpu.device
        Event = torch.tpu.Event
        Stream = torch.tpu.Stream
        current_device = staticmethod(torch.tpu.current_device)
        set_device = staticmethod(torch.tpu.set_device)
        device_count = staticmethod(torch.tpu.device_count)
        is_available = staticmethod(torch.tpu.is_available)
        stream = staticmethod(torch.tpu.stream)
        current_stream = staticmethod(torch.tpu.current_stream)
        set_stream = staticmethod(torch.tpu.set_stream)
        synchronize = staticmethod(torch.tpu.synchronize)
        exchange_device = staticmethod(torch._C._accelerator_exchangeDevice)
        maybe_exchange_device = staticmethod(torch._C._accelerator_maybeExchangeDevice)
        memory_allocated = staticmethod(torch.tpu.memory_allocated)
        is_bf16_supported = staticmethod(torch.tpu.is_bf16_supported)

    device_interface.register_interface_for_device("tpu", Interface)
