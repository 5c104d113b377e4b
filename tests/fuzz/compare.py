# SPDX-License-Identifier: Apache-2.0
"""Where two runs of a program differ."""

from __future__ import annotations

import torch

from tests.fuzz.program import Observed, Outcome, Program

# Of values that are not exact: rounding, after some twenty operators.
_TOLERANCE = {
    torch.bfloat16: 6e-2,
    torch.float16: 2e-2,
    torch.float32: 2e-3,
    torch.float64: 1e-3,  # of float32 values, in between
    torch.complex64: 2e-3,
    torch.complex128: 1e-3,
}


def difference(program: Program, cpu: Outcome, device: Outcome) -> str:
    """Return the first difference as one line; empty if the device did what the CPU did."""
    for number, (expected, actual) in enumerate(zip(cpu.errors, device.errors, strict=True)):
        if expected != actual:
            line = program.lines[number]
            return f"line {number}: {line}: the CPU has {expected or 'no error'}, tpu {actual or 'none'}"
    for name in {**cpu.unreadable, **device.unreadable}:
        theirs, ours = cpu.unreadable.get(name), device.unreadable.get(name)
        if theirs != ours:
            return f"{name}: the CPU has {theirs or 'no error'} at the end, tpu {ours or 'none'}"
    if [*cpu.tensors] != [*device.tensors]:
        return f"{sorted({*cpu.tensors} ^ {*device.tensors})}: a tensor on one device only"
    for name in cpu.tensors:
        text = _differs(cpu.tensors[name], device.tensors[name], name in program.exact)
        if text:
            return f"{name}: {text}"
    return ""


def _differs(cpu: Observed, device: Observed, exact: bool) -> str:
    for what in ("stride", "offset", "requires_grad"):
        expected, actual = getattr(cpu, what), getattr(device, what)
        if expected != actual:
            return f"{what} {expected} on the CPU, {actual} on tpu"
    if text := _values_differ(cpu.values, device.values, exact):
        return text
    if (cpu.gradient is None) != (device.gradient is None):
        return f"gradient {cpu.gradient} on the CPU, {device.gradient} on tpu"
    if cpu.gradient is not None and device.gradient is not None:
        text = _values_differ(cpu.gradient, device.gradient, exact=False)
        return f"gradient: {text}" if text else ""
    return ""


def _values_differ(cpu: torch.Tensor, device: torch.Tensor, exact: bool) -> str:
    if (cpu.dtype, cpu.shape) != (device.dtype, device.shape):
        return f"{cpu.dtype} {[*cpu.shape]} on the CPU, {device.dtype} {[*device.shape]} on tpu"
    if not exact and cpu.dtype not in _TOLERANCE:
        return ""  # the bits of rounded values
    tolerance = 0.0 if exact else _TOLERANCE[cpu.dtype]
    finite = cpu[torch.isfinite(cpu)] if tolerance else cpu
    scale = float(finite.abs().max()) if tolerance and finite.numel() else 1.0
    if torch.allclose(
        cpu, device, rtol=tolerance, atol=tolerance * max(scale, 1.0), equal_nan=True
    ):
        return ""
    return f"{cpu.flatten()[:8].tolist()} on the CPU, {device.flatten()[:8].tolist()} on tpu"
