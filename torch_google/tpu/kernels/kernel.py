# SPDX-License-Identifier: Apache-2.0
"""Defines a JAX function as a torch operator, with its schema, shape inference and lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from torch._library.autograd import make_autograd_impl

from torch_google.tpu import _C, dtypes, target_platform
from torch_google.tpu.kernels.kernel_signature import OPTIONAL_TENSORS, KernelSignature
from torch_google.tpu.kernels.pallas import interpreted
from torch_google.tpu.kernels.x64_choice import Function, choose, evaluate, is_64_bit
from torch_google.tpu.lowerings import lowering
from torch_google.tpu.program import constant, tensor_of
from torch_google.tpu.runtime import interruptions, platform


@dataclass(frozen=True)
class Kernel:
    """A JAX function and the torch operator that it implements.

    `title` is the kernel's name in error messages. `function` takes arrays in place of tensors.
    `x64` specifies whether it is traced with 64-bit types; if it is None, `x64_choice` decides. For
    a gradient, `primal` is the kernel that it differentiates.
    """

    name: str
    title: str
    function: Callable[..., Any]
    signature: KernelSignature
    x64: bool | None = None
    primal: Kernel | None = None

    def define(self) -> Any:
        """Define and return the torch operator. Raises ValueError if its name is already taken."""
        schema = self.signature.schema()
        if self.name in torch._C._dispatch_get_all_op_names():
            raise ValueError(
                f"{self.title}: '{self.name}' is already an operator. Choose another name; for "
                "another library's operator, register a lowering with torch_google.tpu.lowering"
            )
        lowering(self.name)(self.arrays)
        operator = torch.library.custom_op(
            self.name, self._on_cpu, mutates_args=(), device_types="cpu", schema=schema
        )
        operator.register_fake(self._shapes)
        if any(p.annotation == OPTIONAL_TENSORS for p in self.signature.parameters):
            self._refuse_lost_gradients(operator)
        return operator

    def arrays(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the results from JAX arrays. This is the operator's lowering."""
        values = self.signature.values(args, kwargs)
        tensors = self.signature.tensors(values)
        running = platform.name() if _C.started() else "cpu"
        return self._evaluated(values, tensors, target_platform.requested() or running)

    def results(self, values: Sequence[Any]) -> Any:
        """Call the function on arrays and return its results, after checking them."""
        arguments = [
            tuple(value) if p.as_tuple else value
            for p, value in zip(self.signature.parameters, values, strict=True)
        ]
        positional, named = self.signature.call(arguments)
        try:
            results = self.function(*positional, **named)
        except _READS as error:
            raise TypeError(
                f"{self.title}: it reads the values of an array, which is only traced: "
                f"{str(error).partition(chr(10))[0]} Use jax.lax.cond or jax.numpy.where, or "
                "take a number for that argument"
            ) from error
        return self._checked(results)

    def _refuse_lost_gradients(self, operator: Any) -> None:
        """Make the operator reject lists that mix None with tensors that require a gradient.

        Autograd ignores tensors in such lists, so their gradients would silently be lost.
        """
        differentiated = make_autograd_impl(operator._opoverload, operator)

        def checked(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            differentiates = operator._backward_fn is not None and torch.is_grad_enabled()
            values = self.signature.values(args, kwargs)
            for parameter, value in zip(self.signature.parameters, values, strict=True):
                if (
                    differentiates
                    and parameter.annotation == OPTIONAL_TENSORS
                    and _loses_gradients(value)
                ):
                    raise TypeError(
                        f"{self.title}: argument '{parameter.name}' has a None next to a tensor that "
                        "needs a gradient, which autograd does not find in such a list. Pass an "
                        "empty tensor for the None, or make each a separate argument, annotated "
                        "as jax.Array | None"
                    )
            return differentiated(keyset, *args, **kwargs)

        for key in ("AutogradCPU", "AutogradMeta", "AutogradPrivateUse1"):
            operator._lib.impl(operator._opoverload._opname, checked, key, with_keyset=True)

    def _evaluated(self, values: Sequence[Any], arrays: Sequence[Any], on: str) -> Any:
        """Compute the results for a platform, with `arrays` in place of the tensors in `values`."""
        with interpreted(on):
            return evaluate(self._of_arrays(values), arrays, self._x64(values, arrays))

    def _of_arrays(self, values: Sequence[Any]) -> Function:
        return lambda arrays: self.results(self.signature.with_tensors(values, arrays))

    def _x64(self, values: Sequence[Any], arrays: Sequence[Any]) -> bool | None:
        """Return whether to trace with 64-bit types, or None if `x64_choice` must decide."""
        wide = [str(array.dtype) for array in arrays if is_64_bit(array)]
        if self.x64 is False and wide:
            raise TypeError(
                f"{self.title}: it has x64=False, but a tensor is {wide[0]}. Pass a tensor of at "
                "most 32 bits, or leave out x64"
            )
        if self.x64 is not None or self.primal is None:
            return self.x64
        filled = self.signature.with_tensors(values, arrays)
        count = len(self.primal.signature.parameters)
        return True if self.primal.has_64_bits(filled[:count]) else None

    def has_64_bits(self, values: Sequence[Any]) -> bool:
        """Return whether `x64` is True, or an argument or a result is a 64-bit tensor."""
        tensors = self.signature.tensors(values)
        if self._x64(values, tensors):
            return True
        return choose(self._of_arrays(values), tensors).x64 is True

    def _checked(self, results: Any) -> Any:
        several = self.signature.returns is not torch.Tensor
        arrays = list(results) if several and isinstance(results, list | tuple) else [results]
        count = len(getattr(self.signature.returns, "__args__", ()))
        fixed = several and self.signature.returns != list[torch.Tensor]
        for position, result in enumerate(arrays):
            if not isinstance(result, jax.Array):
                of = f" for result {position}" if several else ""
                raise TypeError(
                    f"{self.title}: it returned {type(result).__name__}{of}, not jax.Array. "
                    "Make it one with jax.numpy.asarray"
                )
        if fixed and len(arrays) != count:
            raise TypeError(
                f"{self.title}: it returned {len(arrays)} arrays, and its annotation says {count}. "
                "Change one of them"
            )
        if not several:
            return arrays[0]
        return tuple(arrays) if fixed else arrays

    def _on_cpu(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the results for CPU tensors."""
        values = self.signature.values(args, kwargs)
        tensors = self.signature.tensors(values)

        def function(arrays: Sequence[jax.Array]) -> Any:
            return self._evaluated(values, arrays, "cpu")

        device = jax.local_devices(backend="cpu")[0]
        with jax.enable_x64(True), jax.default_device(device):
            results = jax.jit(function)([constant(tensor) for tensor in tensors])
        return jax.tree.map(tensor_of, results)

    def _shapes(self, *args: Any, **kwargs: Any) -> Any:
        """Return empty tensors with the results' metadata. Specializes symbolic sizes."""
        values = [_number(value) for value in self.signature.values(args, kwargs)]
        tensors = self.signature.tensors(values)
        if not tensors:
            raise ValueError(
                f"{self.title}: no array was passed, so the device is unknown. Pass one"
            )
        device = tensors[0].device
        specs = [
            jax.ShapeDtypeStruct(tuple(int(size) for size in t.shape), dtypes.to_jax(t.dtype))
            for t in tensors
        ]

        def function(arrays: Sequence[jax.Array]) -> Any:
            return self.arrays(*self.signature.with_tensors(values, arrays))

        with interruptions.delayed(), jax.enable_x64(True):
            results = jax.eval_shape(function, specs)

        def like(spec: jax.ShapeDtypeStruct) -> torch.Tensor:
            return torch.empty(spec.shape, dtype=dtypes.to_torch(spec.dtype), device=device)

        return jax.tree.map(like, results)


def _loses_gradients(items: Sequence[torch.Tensor | None]) -> bool:
    present = [item for item in items if item is not None]
    return len(present) < len(items) and any(item.requires_grad for item in present)


def _number(value: Any) -> Any:
    """Replace a symbolic scalar with its value, and return any other value unchanged."""
    if isinstance(value, torch.SymInt):
        return int(value)
    if isinstance(value, torch.SymFloat):
        return float(value)
    return [_number(item) for item in value] if isinstance(value, list | tuple) else value


_READS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
