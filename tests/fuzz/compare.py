# SPDX-License-Identifier: Apache-2.0
"""Find the first difference between two runs of a program."""

from __future__ import annotations

import torch

from tests.fuzz.program import Observed, Outcome, Program

# Relative tolerances for inexact values, which allow for the rounding errors of about 20 operators.
_TOLERANCE = {
    torch.bfloat16: 6e-2,
    torch.float16: 2e-2,
    torch.float32: 2e-3,
    torch.float64: 1e-3,  # Some intermediate values are float32.
    torch.complex64: 2e-3,
    torch.complex128: 1e-3,
}
_LEAST = min(_TOLERANCE.values())
# An out-of-range index raises IndexError on tpu; on the CPU, it raises IndexError or RuntimeError,
# depending on the kernel and the rank.
_OF_INDICES = {"IndexError", "RuntimeError"}


def difference(program: Program, cpu: Outcome, device: Outcome) -> str:
    """Return the first difference as one line, or an empty string if the runs agree."""
    for number, (expected, actual) in enumerate(zip(cpu.errors, device.errors, strict=True)):
        line = program.lines[number]
        is_alike = line in program.by_value and {expected, actual} <= _OF_INDICES
        if expected != actual and not is_alike:
            return f"line {number}: {line}: the CPU has {expected or 'no error'}, tpu {actual or 'none'}"
    for name in {**cpu.unreadable, **device.unreadable}:
        cpu_error, device_error = cpu.unreadable.get(name), device.unreadable.get(name)
        if cpu_error != device_error:
            return f"{name}: the CPU has {cpu_error or 'no error'} at the end, tpu {device_error or 'none'}"
    if [*cpu.tensors] != [*device.tensors]:
        return f"{sorted({*cpu.tensors} ^ {*device.tensors})}: a tensor on one device only"
    # Use the tolerance of the least precise dtype in the program, because a cast to a more precise
    # dtype does not remove rounding errors.
    coarsest = max(
        (
            _TOLERANCE.get(observed.values.dtype, _LEAST)
            for name, observed in cpu.tensors.items()
            if name not in program.exact
        ),
        default=_LEAST,
    )
    for name in cpu.tensors:
        tolerance = 0.0 if name in program.exact else coarsest
        text = _differs(cpu.tensors[name], device.tensors[name], tolerance)
        if text:
            return f"{name}: {text}"
    return ""


def _differs(cpu: Observed, device: Observed, tolerance: float) -> str:
    """Return the first difference between two tensors, or an empty string.

    `tolerance` is 0 if the values must be equal.
    """
    for attribute in ("stride", "offset", "requires_grad"):
        expected, actual = getattr(cpu, attribute), getattr(device, attribute)
        if expected != actual:
            return f"{attribute} {expected} on the CPU, {actual} on tpu"
    if text := _values_differ(cpu.values, device.values, tolerance):
        return text
    if (cpu.gradient is None) != (device.gradient is None):
        return f"gradient {cpu.gradient} on the CPU, {device.gradient} on tpu"
    if cpu.gradient is not None and device.gradient is not None:
        gradients = tolerance or _TOLERANCE.get(cpu.gradient.dtype, _LEAST)
        text = _values_differ(cpu.gradient, device.gradient, gradients)
        return f"gradient: {text}" if text else ""
    return ""


def _values_differ(cpu: torch.Tensor, device: torch.Tensor, tolerance: float) -> str:
    if (cpu.dtype, cpu.shape) != (device.dtype, device.shape):
        return f"{cpu.dtype} {[*cpu.shape]} on the CPU, {device.dtype} {[*device.shape]} on tpu"
    if tolerance and cpu.dtype not in _TOLERANCE:
        return ""  # An integer tensor can be a view of rounded floats.
    finite = cpu[torch.isfinite(cpu)] if tolerance else cpu
    scale = float(finite.abs().max()) if tolerance and finite.numel() else 1.0
    if torch.allclose(
        cpu, device, rtol=tolerance, atol=tolerance * max(scale, 1.0), equal_nan=True
    ):
        return ""
    return f"{cpu.flatten()[:8].tolist()} on the CPU, {device.flatten()[:8].tolist()} on tpu"
