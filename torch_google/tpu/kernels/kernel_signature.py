# SPDX-License-Identifier: Apache-2.0
"""Derives an operator's signature from a JAX function's annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch

# An operator can return one tensor, a fixed number of tensors, or a list of tensors.
ONE, LIST = "Tensor", "Tensor[]"


@dataclass(frozen=True)
class Parameter:
    """An operator's parameter. `as_tuple` means that the function expects a tuple, not a list."""

    name: str
    annotation: Any
    default: Any = inspect.Parameter.empty
    keyword_only: bool = False
    as_tuple: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.annotation in (torch.Tensor, typing.Optional[torch.Tensor])  # noqa: UP045

    @property
    def is_tensors(self) -> bool:
        return self.annotation in TENSOR_LISTS


OPTIONAL_TENSORS = list[typing.Optional[torch.Tensor]]  # noqa: UP045
TENSOR_LISTS = (list[torch.Tensor], OPTIONAL_TENSORS)


@dataclass(frozen=True)
class KernelSignature:
    """An operator's parameters and its return type, with torch.Tensor in place of jax.Array."""

    parameters: tuple[Parameter, ...]
    returns: Any

    def schema(self) -> str:
        """Return the schema without the operator's name.

        Raises ValueError if torch cannot infer a schema for these parameters and this return type.
        """

        def prototype() -> None: ...

        parameter_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        prototype.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    p.name,
                    parameter_kinds[p.keyword_only],
                    default=p.default,
                    annotation=_spelled(p.annotation),
                )
                for p in self.parameters
            ],
            return_annotation=_spelled(self.returns),
        )
        return str(torch.library.infer_schema(prototype, mutates_args=()))

    def values(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the value of each parameter in order, with defaults filled in."""
        by_name = dict(zip((p.name for p in self.parameters), args, strict=False)) | kwargs
        return [by_name.get(p.name, p.default) for p in self.parameters]

    def call(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Convert parameter values to positional and keyword arguments."""
        pairs = list(zip(self.parameters, values, strict=True))
        named = {p.name: value for p, value in pairs if p.keyword_only}
        return [value for p, value in pairs if not p.keyword_only], named

    def tensors(self, values: Sequence[Any]) -> list[Any]:
        """Return all tensors in `values`, including those in lists."""
        return list(self._tensors(values))

    def with_tensors(self, values: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
        """Return `values` with their tensors replaced, in order, by those in `tensors`."""
        rest = iter(tensors)

        def replaced(value: Any) -> Any:
            return None if value is None else next(rest)

        return [
            replaced(value)
            if p.is_tensor
            else [replaced(item) for item in value]
            if p.is_tensors
            else value
            for p, value in zip(self.parameters, values, strict=True)
        ]

    def _tensors(self, values: Sequence[Any]) -> Iterator[Any]:
        for p, value in zip(self.parameters, values, strict=True):
            if p.is_tensors:
                yield from (item for item in value if item is not None)
            elif p.is_tensor and value is not None:
                yield value


def signature_of(function: Callable[..., Any], where: str) -> KernelSignature:
    """Return the operator signature of a JAX function.

    Raises TypeError if an annotation is missing or unsupported. The message starts with `where` and
    names the parameter.
    """
    try:
        parameters = inspect.signature(function).parameters
        hints = typing.get_type_hints(inspect.unwrap(function))
    except (TypeError, ValueError, NameError) as error:
        raise TypeError(
            f"{where}: its annotations cannot be read: {error}. Decorate a function whose "
            "annotations are names of its module"
        ) from error
    translated = tuple(_parameter(p, hints, where) for p in parameters.values())
    if not any(p.is_tensor or p.is_tensors for p in translated):
        raise TypeError(
            f"{where}: no argument is an array, so its device is unknown. Annotate one as jax.Array"
        )
    if "return" not in hints:
        raise TypeError(f"{where}: no return annotation. Use jax.Array")
    return KernelSignature(translated, _returns(hints["return"], where))


def _parameter(parameter: inspect.Parameter, hints: dict[str, Any], where: str) -> Parameter:
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{where}: argument '{parameter}' has no fixed number of values. Name each")
    if name not in hints:
        raise TypeError(f"{where}: argument '{name}' has no annotation. Use one of {_KNOWN}")
    annotation, as_tuple = _translated(hints[name])
    if annotation is None:
        raise TypeError(
            f"{where}: argument '{name}' is annotated as {_named(hints[name])}. Use one of {_KNOWN}"
        )
    keyword_only = parameter.kind is parameter.KEYWORD_ONLY
    result = Parameter(name, annotation, parameter.default, keyword_only, as_tuple)
    if keyword_only and (result.is_tensor or result.is_tensors):
        raise TypeError(
            f"{where}: argument '{name}' is a keyword-only array, which operators cannot have. "
            "Move it before the '*'"
        )
    if not isinstance(parameter.default, _DEFAULTS) and parameter.default is not parameter.empty:
        raise TypeError(
            f"{where}: argument '{name}' has a {type(parameter.default).__name__} as its default, "
            "which a schema cannot express. Use a number, a str or None"
        )
    return result


_NUMBERS = (int, float, bool, str)
_DEFAULTS = (int, float, bool, str, types.NoneType)
_KNOWN = "jax.Array, int, float, bool, str, each of these or None, list[jax.Array], list[int]"


def _translated(annotation: Any) -> tuple[Any, bool]:
    """Convert a JAX function's annotation, and return whether the original is a tuple type.

    The result has torch.Tensor in place of jax.Array, and a list in place of a tuple. It is None if
    the annotation is not supported.
    """
    if annotation in (jax.Array, torch.Tensor):
        return torch.Tensor, False
    if annotation in _NUMBERS:
        return annotation, False
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and len(inner) == 2 and types.NoneType in inner:
        item, _ = _translated(inner[0] if inner[1] is types.NoneType else inner[1])
        simple = item in (torch.Tensor, *_NUMBERS)
        return (typing.Optional[item] if simple else None), False  # noqa: UP045
    is_tuple = origin is tuple and len(inner) == 2 and inner[1] is Ellipsis
    if is_tuple or (origin is not None and issubclass(list, origin) and inner):
        item, _ = _translated(inner[0])
        if item in (torch.Tensor, typing.Optional[torch.Tensor], int, float, bool):  # noqa: UP045
            return types.GenericAlias(list, (item,)), is_tuple
    return None, False


def _returns(annotation: Any, where: str) -> Any:
    array = (jax.Array, torch.Tensor)
    if annotation in array:
        return torch.Tensor
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and inner and inner[0] in array:
        return list[torch.Tensor]
    if origin is tuple and inner and all(item in array for item in inner):
        return types.GenericAlias(tuple, (torch.Tensor,) * len(inner))
    raise TypeError(
        f"{where}: it returns {_named(annotation)}. Use jax.Array, tuple[jax.Array, jax.Array] or "
        "list[jax.Array]"
    )


_LIST: Any = typing.List  # noqa: UP006


def _spelled(annotation: Any) -> Any:
    """Replace `list[...]` with `typing.List[...]`, because torch v2.6 accepts only the latter."""
    if typing.get_origin(annotation) is list:
        (item,) = typing.get_args(annotation)
        return _LIST[item]
    return annotation


def _named(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
