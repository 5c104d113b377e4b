# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import numpy as np
import pytest

from torch_google.serving import Limits, RequestError, Signature, Size, Source, TensorSpec
from torch_google.serving.api import as_json
from torch_google.serving.errors import ServingError
from torch_google.serving.signature import parse_json

_SIGNATURE = Signature(
    (
        TensorSpec.of("image", "torch.float32", (1, 2)),
        TensorSpec.of("tokens", "int8", (Size(1, 3),)),
    ),
    ("logits",),
)


def _body(image: Any, tokens: Any) -> bytes:
    return json.dumps({"inputs": {"image": image, "tokens": tokens}}).encode()


def test_a_request_that_fits() -> None:
    arrays = _SIGNATURE.parse(_body([[1, 2.5]], [1, -128, 127]))
    assert arrays["image"].dtype == np.float32
    assert arrays["image"].tolist() == [[1.0, 2.5]]
    assert arrays["tokens"].dtype == np.int8
    assert arrays["tokens"].tolist() == [1, -128, 127]


@pytest.mark.parametrize(
    ("image", "tokens", "where", "found"),
    [
        ([[1.0]], [1], "inputs.image", "shape [1, 1]"),
        ([1.0, 2.0], [1], "inputs.image", "shape [2]"),
        ([[1.0, 2.0], [1.0]], [1], "inputs.image", "lists whose lengths differ"),
        ([["a", "b"]], [1], "inputs.image", "strings"),
        ([[True, False]], [1], "inputs.image", "booleans"),
        ([[1.0, None]], [1], "inputs.image", "null, objects or large integers"),
        ([[1.0, 1e300]], [1], "inputs.image", "not finite"),
        ({"a": 1}, [1], "inputs.image", "null, objects or large integers"),
        ([[1.0, 2.0]], [1.5], "inputs.tokens", "numbers"),
        ([[1.0, 2.0]], [128], "inputs.tokens", "the integer 128"),
        ([[1.0, 2.0]], [2**70], "inputs.tokens", "large integers"),
        ([[1.0, 2.0]], [], "inputs.tokens", "shape [0]"),
        ([[1.0, 2.0]], [1, 2, 3, 4], "inputs.tokens", "shape [4]"),
    ],
)
def test_an_input_that_does_not_fit(image: Any, tokens: Any, where: str, found: str) -> None:
    with pytest.raises(RequestError) as error:
        _SIGNATURE.parse(_body(image, tokens))
    assert error.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert error.value.where == where
    assert found in error.value.found


@pytest.mark.parametrize(
    ("document", "where", "found"),
    [
        ([], "the body", "a list"),
        ({}, "the body", "an empty object"),
        ({"input": 1}, "the body", "the names input"),
        ({"inputs": {"image": [[1, 2]]}}, "inputs.tokens", "the names image"),
        ({"inputs": {"image": 1, "tokens": 1, "x": 1}}, "inputs.x", "the names image, tokens, x"),
    ],
)
def test_a_document_that_does_not_fit(document: Any, where: str, found: str) -> None:
    with pytest.raises(RequestError) as error:
        _SIGNATURE.parse(json.dumps(document).encode())
    assert (error.value.where, error.value.found) == (where, found)
    assert 'send {"inputs": {"image": ..., "tokens": ...}}' in error.value.next_step


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "Expecting value at line 1, column 1"),
        (b"[1,\n]", "line 2, column 1"),
        (b"\xff", "a byte that is not UTF-8 at offset 0"),
        (b"[NaN]", "NaN, which JSON lacks"),
        (b"[" * 100_000, "lists that are too deep"),
        (b"9" * 10_000, "Exceeds the limit"),
    ],
)
def test_a_body_that_is_not_json(body: bytes, found: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_json(body)
    assert error.value.status == HTTPStatus.BAD_REQUEST
    assert found in error.value.found


def test_the_example_of_the_documentation_fits() -> None:
    example = _SIGNATURE.example()
    assert _SIGNATURE.parse(json.dumps(example).encode())["tokens"].shape == (1,)
    schema = _SIGNATURE.request_schema()["properties"]["inputs"]["properties"]["tokens"]
    assert (schema["minItems"], schema["maxItems"]) == (1, 3)


def test_numbers_that_json_lacks_are_strings() -> None:
    array = np.array([[1.5, np.nan], [np.inf, -np.inf]], np.float32)
    assert as_json(array) == [[1.5, "NaN"], ["Infinity", "-Infinity"]]


def test_a_dtype_that_no_request_can_have() -> None:
    with pytest.raises(ValueError, match="input 'x' has dtype complex64"):
        TensorSpec.of("x", "complex64", (1,))


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"batch": 0}, "batch=0; use 1 or more"),
        ({"timeout": float("nan")}, "timeout=nan; use more than 0 s"),
        ({"drain_delay": -1}, "drain_delay=-1; use 0 s or more"),
    ],
)
def test_a_limit_out_of_range(limit: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**limit)


def test_a_name_that_is_no_model() -> None:
    with pytest.raises(ServingError, match="'model.onnx' is no model: use a file"):
        Source("model.onnx")
    with pytest.raises(ServingError, match="m.pt2 has its own weights, and the checkpoint w.pt"):
        Source("m.pt2", "w.pt")
