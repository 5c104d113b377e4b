# SPDX-License-Identifier: Apache-2.0
"""The signature of a model, against which requests are checked.

This module does not import torch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NoReturn

import numpy as np

from torch_google.serving.errors import RequestError

# The kind of JSON value for each torch dtype, and the NumPy dtype of the array that is sent to a
# worker: float32 for bfloat16, which NumPy lacks.
_DTYPES = {
    "bool": ("booleans", np.bool_),
    "uint8": ("integers", np.uint8),
    "int8": ("integers", np.int8),
    "int16": ("integers", np.int16),
    "int32": ("integers", np.int32),
    "int64": ("integers", np.int64),
    "float16": ("numbers", np.float16),
    "bfloat16": ("numbers", np.float32),
    "float32": ("numbers", np.float32),
    "float64": ("numbers", np.float64),
}
# The NumPy dtype kinds that JSON values of each kind may have after conversion to an array.
_KINDS = {"booleans": "b", "integers": "iu", "numbers": "iuf"}
_JSON_TYPES = {"booleans": "boolean", "integers": "integer", "numbers": "number"}
_FOUND = {"b": "booleans", "i": "integers", "u": "integers", "f": "numbers", "U": "strings"}


@dataclasses.dataclass(frozen=True)
class Size:
    """The range of a dimension's size. `high` is None if there is no upper limit."""

    low: int
    high: int | None

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        return f"{self.low}..{'' if self.high is None else self.high}"

    def admits(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high)


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """The torch dtype and the shape of a model input, excluding the batch dimension."""

    name: str
    dtype: str
    shape: tuple[Size, ...]

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise ValueError(
                f"input {self.name!r} has dtype {self.dtype}; a request can have {', '.join(_DTYPES)}"
            )

    @classmethod
    def of(cls, name: str, dtype: str, shape: Sequence[int | Size]) -> TensorSpec:
        """Create a spec. `dtype` may start with "torch."; an int in `shape` is a fixed size."""
        sizes = tuple(size if isinstance(size, Size) else Size(size, size) for size in shape)
        return cls(name, dtype.removeprefix("torch."), sizes)

    def __str__(self) -> str:
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"

    def zeros(self) -> np.ndarray:
        """Return an array of zeros with the smallest allowed shape that is not empty."""
        shape = [size.low if size.low or size.high == 0 else 1 for size in self.shape]
        return np.zeros(shape, _DTYPES[self.dtype][1])

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of this input."""
        schema: dict[str, Any] = {"type": _JSON_TYPES[_DTYPES[self.dtype][0]]}
        for size in reversed(self.shape):
            schema = {"type": "array", "items": schema, "minItems": size.low}
            if size.high is not None:
                schema["maxItems"] = size.high
        return {**schema, "description": str(self)}

    def parse(self, value: Any) -> np.ndarray:
        """Return a JSON value as an array. Raises RequestError if it does not match this spec."""
        kind, dtype = _DTYPES[self.dtype]
        try:
            array = np.array(value)
        except (ValueError, OverflowError, RecursionError):
            self._refuse("lists whose lengths differ, or that are too deep", "one length per level")
        if not array.size:  # NumPy gives an empty list a dtype of its own
            array = array.astype(dtype)
        if array.dtype.kind not in _KINDS[kind]:
            self._refuse(_FOUND.get(array.dtype.kind, "null, objects or large integers"), kind)
        if len(array.shape) != len(self.shape) or not all(
            size.admits(actual) for size, actual in zip(self.shape, array.shape, strict=True)
        ):
            self._refuse(f"shape {list(array.shape)}", "that shape")
        if kind == "integers" and array.size:
            limits = np.iinfo(dtype)
            for extreme in (array.min(), array.max()):
                if not limits.min <= int(extreme) <= limits.max:
                    self._refuse(f"the integer {extreme}", f"{limits.min} to {limits.max}")
        with np.errstate(over="ignore"):  # the next check finds the overflow
            array = array.astype(dtype)
        if kind == "numbers" and not np.isfinite(array).all():
            self._refuse("a number that is not finite in that dtype", "finite numbers")
        return array

    def _refuse(self, found: str, expected: str) -> NoReturn:
        raise RequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the input does not fit the model, which takes {self}",
            f"inputs.{self.name}",
            found,
            f"send one example, without a batch dimension: nested lists with {expected}",
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """The inputs of a model, and the names of its outputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]

    def parse(self, body: bytes) -> dict[str, np.ndarray]:
        """Return the inputs in a request's body, by name. Raises RequestError if one is invalid."""
        inputs = parse_json(body)
        names = [spec.name for spec in self.inputs]
        fields = ", ".join(f'"{name}": ...' for name in names)
        template = f'send {{"inputs": {{{fields}}}}}'
        if not isinstance(inputs, dict) or not isinstance(inputs.get("inputs"), dict):
            _refuse("there is no object `inputs`", "the body", _summary(inputs), template)
        inputs = inputs["inputs"]
        for name in names:
            if name not in inputs:
                _refuse("an input is missing", f"inputs.{name}", _names(inputs), template)
        for name in inputs:
            if name not in names:
                _refuse("an input is unknown", f"inputs.{name[:80]}", _names(inputs), template)
        return {spec.name: spec.parse(inputs[spec.name]) for spec in self.inputs}

    def request_schema(self) -> dict[str, Any]:
        """Return the JSON schema of a request."""
        names = [spec.name for spec in self.inputs]
        inputs = {
            "type": "object",
            "properties": {spec.name: spec.schema() for spec in self.inputs},
            "required": names,
            "additionalProperties": False,
        }
        return {"type": "object", "properties": {"inputs": inputs}, "required": ["inputs"]}

    def response_schema(self) -> dict[str, Any]:
        """Return the JSON schema of a response."""
        outputs = {
            "type": "object",
            "properties": {
                name: {"description": "nested lists; NaN and infinities are strings"}
                for name in self.outputs
            },
            "required": list(self.outputs),
        }
        return {"type": "object", "properties": {"outputs": outputs}, "required": ["outputs"]}

    def example(self) -> dict[str, Any]:
        """Return an example of a valid request, as a JSON value."""
        return {"inputs": {spec.name: spec.zeros().tolist() for spec in self.inputs}}


def parse_json(body: bytes) -> Any:
    """Parse a JSON document. Raises RequestError if it is invalid."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        found = "lists that are too deep"
    except UnicodeDecodeError as error:
        found = f"a byte that is not UTF-8 at offset {error.start}"
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except ValueError as error:  # an integer with thousands of digits, or a constant
        found = str(error).partition(";")[0]
    raise RequestError(
        HTTPStatus.BAD_REQUEST, "the body is not JSON", "the body", found, "correct the JSON"
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which JSON lacks")


def _refuse(what: str, where: str, found: str, next_step: str) -> NoReturn:
    raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, what, where, found, next_step)


def _summary(value: Any) -> str:
    if isinstance(value, dict):
        return _names(value)
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number")


def _names(values: Mapping[str, Any]) -> str:
    if not values:
        return "an empty object"
    names = [name[:80] for name in list(values)[:8]]
    return f"the names {', '.join(names)}{', ...' if len(values) > len(names) else ''}"
