# SPDX-License-Identifier: Apache-2.0
"""Damaged cache entries cause a warning and are replaced.

They never crash the process, and none of their bytes run as code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google.tpu import cache
from torch_google.tpu.cache import entry

_FUZZ = settings(
    max_examples=examples(150, part=15),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_FRAME = len(hashlib.sha256().digest())


@functools.cache
def _lowered() -> jax.stages.Lowered:
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    return jax.jit(lambda x, n: (x * n + 1, {"x": [x, None]})).lower(shape, 2.0)


@functools.cache
def _bytes() -> bytes:
    return entry.encode(cache.Entry(_lowered().compile(), ["a note", 1]))


def _sealed(metadata: bytes, code: bytes) -> bytes:
    """Return an entry with the given metadata, the given code and a valid checksum."""
    body = len(metadata).to_bytes(8, "little") + metadata + code
    return _bytes().partition(b"\n")[0] + b"\n" + hashlib.sha256(body).digest() + body


def _parts() -> tuple[bytes, bytes]:
    body = _bytes().partition(b"\n")[2][_FRAME:]
    length = int.from_bytes(body[:8], "little")
    return body[8 : 8 + length], body[8 + length :]


@st.composite
def _mutations(draw: st.DrawFn, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(0, len(changed) - 1)))
        change = draw(st.sampled_from(["replace", "cut", "insert", "remove"]))
        if change == "replace":
            changed[position : position + 1] = draw(st.binary(min_size=1, max_size=3))
        elif change == "cut":
            del changed[position:]
        elif change == "insert":
            changed[position:position] = draw(st.binary(max_size=40))
        else:
            del changed[position : position + draw(st.integers(1, 40))]
    return bytes(changed)


def _run_twice(data: bytes) -> list[str]:
    """Store `data` as a program's cache entry, run the program twice, and return the warnings."""
    devices = jax.local_devices()[:1]
    with (
        tempfile.TemporaryDirectory() as directory,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        cache.set_compile_cache(directory)
        cache.store_entry("program", devices, cache.Entry(None, 0))
        (path,) = (path for path in Path(directory).rglob("*") if path.is_file())
        path.write_bytes(data)
        for _ in range(2):
            loaded = cache.load_entry("program", devices)
            executable = loaded.executable if loaded is not None else None
            if executable is None:
                executable = _lowered().compile()
                cache.store_entry("program", devices, cache.Entry(executable, None))
            total, rest = executable(jnp.ones(3, jnp.float32), 2.0)
            assert total.tolist() == [3.0, 3.0, 3.0]
            assert (rest["x"][0].tolist(), rest["x"][1]) == ([1.0, 1.0, 1.0], None)
        assert cache.statistics().hits > 0
        cache.set_compile_cache(None)
    return [str(warning.message) for warning in caught]


@_FUZZ
@given(data=st.deferred(lambda: _mutations(_bytes())))
def test_changed_bytes_cost_a_recompile_and_one_warning(data: bytes) -> None:
    if data != _bytes():
        (warning,) = _run_twice(data)
        assert "is recompiled: " in warning
    else:
        assert _run_twice(data) == []


@_FUZZ
@given(metadata=st.deferred(lambda: _mutations(_parts()[0])))
def test_a_description_with_a_right_checksum_is_loaded_or_refused(metadata: bytes) -> None:
    _load(_sealed(metadata, _parts()[1]))


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@_FUZZ
@given(st.data())
def test_a_description_with_other_values_is_loaded_or_refused(data: st.DataObject) -> None:
    metadata, code = _parts()
    description, note = json.loads(metadata)
    description[data.draw(st.sampled_from(sorted(description)))] = data.draw(_JSON)
    _load(_sealed(json.dumps([description, note]).encode(), code))


def _load(data: bytes) -> None:
    with contextlib.suppress(entry.UnusableEntry):
        entry.decode(data).loaded(jax.local_devices()[:1])


class _Bomb:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    bomb = pickle.dumps((None, _Bomb(tmp_path / "ran")))
    header = _bytes().partition(b"\n")[0] + b"\n"
    data = header + hashlib.sha256(bomb).digest() + bomb
    with pytest.raises(entry.UnusableEntry, match="it cannot be loaded"):
        entry.decode(data)
    assert list(tmp_path.iterdir()) == []
