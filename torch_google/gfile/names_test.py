# SPDX-License-Identifier: Apache-2.0
"""Files with any legal local name can be written and removed; neighboring files survive."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google import gfile
from torch_google.gfile import answers
from torch_google.gfile.partial import machine

_SENTINELS = {
    "run1": b"1",
    "run10": b"2",
    ".hidden": b"3",
    "a.partial": b"4",
    ".a.partial": b"5",
    ".a.partial-x": b"6",
    "directory/file": b"7",
    ".b.partial-ffffffffffff-0/b": b"8",
}
_MARK = f".partial-{machine()}-"
_BYTE = st.integers(1, 255).filter(lambda byte: byte != ord("/"))
_LOOKALIKES = st.builds(
    lambda name, number: b".%s%s%d" % (name, _MARK.encode(), number),
    st.sampled_from([b"", b"a", b"run1", b"\xff\n", b"n" * 200]),
    st.integers(0, 3),
)
_BYTES = st.one_of(
    st.lists(_BYTE, min_size=1, max_size=255).map(bytes),
    st.lists(st.sampled_from(b"run1*?[]{}%#.~\n :\\-"), min_size=1, max_size=12).map(bytes),
    st.lists(_BYTE, min_size=214, max_size=255).map(bytes),
    _LOOKALIKES,
)
_NAMES = _BYTES.map(os.fsdecode).filter(
    lambda name: name not in (".", "..", *(each.split("/")[0] for each in _SENTINELS))
)


def _content(top: str) -> dict[str, bytes]:
    """Return the files under a directory, including those that gfile hides."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in Path(top).rglob("*")
        if path.is_file()
    }


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(name=_NAMES, other=_NAMES)
@example(name=f".a{_MARK}0", other="a")
@example(name="a", other=f".a{_MARK}0")
@example(name="n" * 255, other="n" * 254 + "\n")
@example(name="\udcff" * 255, other="\udcfe")
@example(name="run*", other="run[1]")
@example(name=f".{_MARK}0", other="-rf")
@example(name="memory:", other="file:")
def test_any_name(name: str, other: str) -> None:
    """Write a file twice, rename it, call Sweep and remove it; check that no other file changes."""
    with tempfile.TemporaryDirectory() as top, gfile.configured(sync=False):
        for sentinel, content in _SENTINELS.items():
            os.makedirs(os.path.dirname(f"{top}/{sentinel}"), exist_ok=True)
            Path(top, sentinel).write_bytes(content)
        path, moved = f"{top}/{name}", f"{top}/{other}"
        with gfile.Open(path, "wb") as file:
            file.write(b"first")
            # The file must not appear before it is complete.
            assert not gfile.Exists(path)
        assert _content(top) == _SENTINELS | {name: b"first"}
        with answers.writing_by_name(path) as temporary:
            Path(temporary).write_bytes(b"second")
            assert os.path.basename(temporary) == name
        gfile.Sweep(top)
        assert _content(top) == _SENTINELS | {name: b"second"}
        assert name in gfile.ListDir(top)
        with gfile.Open(path, "rb") as file:
            assert file.read() == b"second"
        if name != other:
            gfile.Rename(path, moved)
        gfile.Sweep(top)
        assert _content(top) == _SENTINELS | {other: b"second"}
        gfile.Remove(moved)
        gfile.MakeDir(path)
        with gfile.Open(f"{path}/file", "wb") as file:
            file.write(b"below")
        gfile.DeleteRecursively(path)
        assert _content(top) == _SENTINELS
        assert sorted(os.listdir(top)) == sorted({each.split("/")[0] for each in _SENTINELS})
