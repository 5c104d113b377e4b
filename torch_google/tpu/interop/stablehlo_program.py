# SPDX-License-Identifier: Apache-2.0
"""Loads StableHLO text, such as export_stablehlo's output, as a function of tpu tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch
from jax import export
from jax._src.interpreters.mlir import make_ir_context
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from torch_google.tpu import dtypes
from torch_google.tpu.interop.jax_arrays import from_jax, to_jax
from torch_google.tpu.runtime import compiler, platform

# Maps the StableHLO element types that torch supports to torch dtypes.
_DTYPES = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "ui8": torch.uint8,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
}


@dataclass(frozen=True)
class TensorType:
    """The dtype and shape of one input or output of a program."""

    dtype: torch.dtype
    shape: tuple[int, ...]


class StableHloProgram:
    """A StableHLO module with fixed shapes. It is compiled once for each device that it runs on."""

    def __init__(self, text: str) -> None:
        """Parse the text. `load_stablehlo` documents the exceptions."""
        with make_ir_context():
            try:
                module = ir.Module.parse(text)
            except ir.MLIRError as error:
                reason = " ".join(str(error).split())[:300]
                raise ValueError(
                    f"tpu: load_stablehlo: the text is not StableHLO: {reason}"
                ) from None
            main = _main(module)
            self.inputs = [_type(each) for each in main.type.inputs]
            self.outputs = [_type(each) for each in main.type.results]
        self._text = text
        self._fingerprint = f"stablehlo {hashlib.sha256(text.encode()).hexdigest()}"
        self._executables: dict[int, jax.stages.Compiled] = {}

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the program on the device of its inputs.

        Raises TypeError unless the tensors match `inputs` in number, dtypes and shapes, and are all
        on one tpu device.
        """
        actual = [TensorType(each.dtype, tuple(each.shape)) for each in tensors]
        if actual != self.inputs:
            raise TypeError(
                f"tpu: a StableHLO program takes {_list(self.inputs)}; found {_list(actual)}"
            )
        places = {str(each.device) for each in tensors}
        if len(places) > 1 or not all(each.device.type == "tpu" for each in tensors):
            raise TypeError(
                f"tpu: the inputs of a StableHLO program are on {', '.join(sorted(places))}. Move "
                "them to one tpu device"
            )
        index = tensors[0].device.index if tensors else torch.tpu.current_device()
        arrays = self._executable(index)(*(to_jax(each.detach()) for each in tensors))
        return tuple(from_jax(each) for each in arrays)

    def _executable(self, index: int) -> jax.stages.Compiled:
        if index not in self._executables:
            torch.tpu.init()
            self._executables[index] = compiler.executable(
                "a StableHLO program",
                lambda: self._lowered(index),
                fingerprint=self._fingerprint,
                on=index,
            )
        return self._executables[index]

    def _lowered(self, index: int) -> jax.stages.Lowered:
        device = jax.sharding.SingleDeviceSharding(platform.device(index))
        arguments = [
            jax.ShapeDtypeStruct(each.shape, dtypes.to_jax(each.dtype), sharding=device)
            for each in self.inputs
        ]
        exported = _exported(self._text, self.inputs, self.outputs)
        return jax.jit(exported.call, keep_unused=True).trace(*arguments).lower()


def load_stablehlo(text: str) -> StableHloProgram:
    """Load StableHLO text as a function of tpu tensors.

    Raises ValueError if the text cannot be parsed, its `main` is missing, or an input or output has
    a dynamic size or a type that torch lacks.
    """
    return StableHloProgram(text)


def _main(module: Any) -> Any:
    for operation in module.body.operations:
        if isinstance(operation, func.FuncOp) and operation.name.value == "main":
            return operation
    raise ValueError("tpu: load_stablehlo: the text has no function @main. Name the program `main`")


def _type(kind: Any) -> TensorType:
    tensor = ir.RankedTensorType(kind)
    name = str(tensor.element_type)
    if name not in _DTYPES or not tensor.has_static_shape:
        raise ValueError(
            f"tpu: load_stablehlo: @main has the type {kind}. Export it with fixed sizes, and with "
            f"elements of {', '.join(_DTYPES)}"
        )
    return TensorType(_DTYPES[name], tuple(tensor.shape))


def _exported(
    text: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> export.Exported:
    def avals(types: Sequence[TensorType]) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            return tuple(
                jax.core.ShapedArray(each.shape, dtypes.to_jax(each.dtype)) for each in types
            )

    arguments = jax.tree.structure((tuple(inputs), {}), is_leaf=lambda x: isinstance(x, TensorType))
    results = jax.tree.structure(tuple(outputs), is_leaf=lambda x: isinstance(x, TensorType))
    return export.Exported(
        fun_name="stablehlo",
        in_tree=arguments,
        in_avals=avals(inputs),
        out_tree=results,
        out_avals=avals(outputs),
        _has_named_shardings=False,
        _in_named_shardings=(None,) * len(inputs),
        _out_named_shardings=(None,) * len(outputs),
        in_shardings_hlo=(None,) * len(inputs),
        out_shardings_hlo=(None,) * len(outputs),
        nr_devices=1,
        # A program for several platforms would get the current platform's index as an extra
        # argument.
        platforms=(platform.name(),),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=(),
        mlir_module_serialized=_serialized(text),
        calling_convention_version=export.maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(len(inputs))),
        uses_global_constants=False,
        _get_vjp=None,
    )


def _serialized(text: str) -> bytes:
    with make_ir_context():
        # Exported linear algebra has attributes of the sdy dialect, which StableHLO's own function
        # for text does not know.
        return _jax.mlir.serialize_portable_artifact(
            ir.Module.parse(text), stablehlo.get_current_version(), True
        )


def _list(types: Sequence[TensorType]) -> str:
    return ", ".join(f"{each.dtype} {list(each.shape)}" for each in types) or "nothing"
