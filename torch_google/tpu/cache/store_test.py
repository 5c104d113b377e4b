# SPDX-License-Identifier: Apache-2.0
"""Cached programs give the same results without compilation, even if cache files are damaged."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from torch_google.tpu import cache
from torch_google.tpu.cache import environment, remote, settings


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path) -> Iterator[None]:
    cache.set_compile_cache(tmp_path)
    cache.reset_statistics()
    yield
    cache.set_compile_cache(None)


class _Program:
    """A function that lowers a program for factor * x + 1, and counts its calls."""

    def __init__(self, factor: float = 2.0) -> None:
        self.lowered = 0
        self._factor = factor

    def __call__(self) -> jax.stages.Lowered:
        self.lowered += 1
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        return jax.jit(lambda x: (self._factor * x + 1, {"x": x})).lower(shape)


def _compiled(program: _Program, *, fingerprint: str) -> jax.stages.Compiled:
    devices = jax.local_devices()[:1]
    entry = cache.load_entry(fingerprint, devices)
    if entry is not None and entry.executable is not None:
        return entry.executable
    executable = program().compile()
    cache.store_entry(fingerprint, devices, cache.Entry(executable, None))
    return executable


def _entries(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def test_a_fingerprint_saves_the_lowering() -> None:
    program = _Program()
    for _ in range(2):
        run = _compiled(program, fingerprint="program")
        total, rest = run(jnp.arange(3.0, dtype=jnp.float32))
        assert total.tolist() == [1.0, 3.0, 5.0]
        assert rest["x"].tolist() == [0.0, 1.0, 2.0]
    assert program.lowered == 1
    counts = cache.statistics()
    assert (counts.misses, counts.stored, counts.hits) == (1, 1, 1)
    assert counts.bytes > 1000


def test_without_a_directory_nothing_is_kept(tmp_path: Path) -> None:
    cache.set_compile_cache(None)
    program = _Program()
    _compiled(program, fingerprint="program")
    _compiled(program, fingerprint="program")
    assert program.lowered == 2
    assert cache.get_compile_cache() is None
    assert _entries(tmp_path) == []


def test_a_note_comes_back_and_needs_no_executable() -> None:
    devices = jax.local_devices()[:1]
    assert cache.load_entry("a note", devices) is None
    cache.store_entry("a note", devices, cache.Entry(None, ["baked", 3]))
    assert cache.load_entry("a note", devices) == cache.Entry(None, ["baked", 3])


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


def _foreign(data: bytes) -> bytes:
    return b"something else"


def _empty(data: bytes) -> bytes:
    return b""


def _of_another_make(data: bytes) -> bytes:
    """Return an intact entry that XLA cannot load, as if another version of XLA had written it."""
    start, length = data.index(b"\n") + 1, len(_words_of(data))
    body = data[start + 32 : start + 40 + length] + b"no executable"
    return data[:start] + hashlib.sha256(body).digest() + body


def _words_of(data: bytes) -> bytes:
    body = data[data.index(b"\n") + 1 + 32 :]
    return body[8 : 8 + int.from_bytes(body[:8], "little")]


@pytest.mark.parametrize("damage", [_cut, _flip, _foreign, _empty, _of_another_make])
def test_a_damaged_entry_is_compiled_anew_with_one_warning(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    for number in range(2):
        _compiled(_Program(number), fingerprint=f"program {number}")
    for path in _entries(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    program = _Program(0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = _compiled(program, fingerprint="program 0")
        _compiled(_Program(1.0), fingerprint="program 1")
    (warning,) = caught
    assert "is recompiled: " in str(warning.message)
    assert run(jnp.ones(3, jnp.float32))[0].tolist() == [1.0, 1.0, 1.0]
    assert cache.statistics().rejected == 2
    _compiled(program, fingerprint="program 0")
    assert program.lowered == 1, "the new entry replaced the damaged one"


def test_a_place_that_cannot_be_used_costs_time_only() -> None:
    cache.set_compile_cache("/proc/version/cache")
    program = _Program()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            run = _compiled(program, fingerprint="program")
    (warning,) = caught
    assert "/proc/version/cache cannot be " in str(warning.message)
    assert program.lowered == 3
    assert run(jnp.ones(3, jnp.float32))[0].tolist() == [3.0, 3.0, 3.0]


def test_a_place_that_fails_again_and_again_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(self: object, name: str) -> bytes:
        asked.append(name)
        raise ConnectionError("no route to host")

    cache.set_compile_cache("memory://far/away")
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.setattr(remote.Remote, "read", refuse)
        for number in range(6):
            assert cache.load_entry(f"{number}", jax.local_devices()[:1]) is None
    (warning,) = caught
    assert "no route to host" in str(warning.message)
    assert len(asked) == 3
    assert cache.statistics().misses == 6
    cache.set_compile_cache("memory://far/away")  # setting a location turns reading on again
    cache.store_entry("note", jax.local_devices()[:1], cache.Entry(None, 3))
    assert cache.load_entry("note", jax.local_devices()[:1]) == cache.Entry(None, 3)


def test_a_huge_program_does_not_push_out_the_others(tmp_path: Path) -> None:
    cache.set_compile_cache(tmp_path, max_bytes=100_000)
    devices = jax.local_devices()[:1]
    cache.store_entry("small", devices, cache.Entry(None, 1))
    cache.store_entry("huge", devices, cache.Entry(None, os.urandom(200_000).hex()))
    assert (cache.statistics().stored, cache.statistics().unstorable) == (1, 1)
    assert cache.load_entry("small", devices) == cache.Entry(None, 1)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path. Name a directory or a URL, or use None"):
        cache.set_compile_cache(path)


def test_a_full_disk_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="cannot be written: .*No space left on device"):
        _compiled(_Program(), fingerprint="program")
    assert _entries(tmp_path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _compiled(_Program(), fingerprint="another")


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true"),
        lambda patch: patch.setattr(environment, "_host", lambda: "another processor"),
        lambda patch: patch.setattr(environment, "_software", lambda: "another version"),
    ],
    ids=["flags", "processor", "versions"],
)
def test_what_was_made_elsewhere_is_not_taken(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiled(_Program(), fingerprint="program")
    with monkeypatch.context() as patch:
        change(patch)
        _compiled(_Program(), fingerprint="program")
    assert (cache.statistics().hits, cache.statistics().misses) == (0, 2)
    with jax.default_matmul_precision("highest"):
        _compiled(_Program(), fingerprint="program")
    assert cache.statistics().misses == 3


def test_the_processor_matters_only_to_programs_for_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def environments() -> tuple[str, str]:
        chip = SimpleNamespace(id=0, device_kind="TPU v5 lite", client=client)
        return environment.environment([chip]), environment.environment(jax.devices("cpu")[:1])

    client = SimpleNamespace(platform="tpu", platform_version="1", device_count=lambda: 4)
    chip, cpu = environments()
    monkeypatch.setattr(environment, "_host", lambda: "another processor")
    assert environments()[0] == chip
    assert environments()[1] != cpu
    client.platform_version = "2"
    assert environments()[0] != chip


def test_the_sources_of_this_package_decide() -> None:
    names = [name for name, _ in environment._modules(files("torch_google.tpu"), "")]
    assert "/lowerings/matmul.py" in names
    assert "/runtime/strides.py" in names
    assert not [name for name in names if name.endswith("_test.py")]


def test_a_bound_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes=0; use a number above 0, or None"):
        cache.set_compile_cache(tmp_path, max_bytes=0)


def test_the_variable_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_state", settings._CacheState())
    monkeypatch.setenv("TORCH_TPU_COMPILE_CACHE", str(tmp_path / "named"))
    assert cache.get_compile_cache() == str(tmp_path / "named")
    monkeypatch.setenv("TORCH_TPU_COMPILE_CACHE", "")
    assert cache.get_compile_cache() == str(tmp_path / "named")


def test_a_variable_that_nothing_opens_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_state", settings._CacheState())
    monkeypatch.setenv("TORCH_TPU_COMPILE_CACHE", "abacus://x")
    with pytest.warns(UserWarning, match="TORCH_TPU_COMPILE_CACHE: cannot open 'abacus://x'"):
        assert cache.get_compile_cache() is None
