# SPDX-License-Identifier: Apache-2.0
"""A small upstream tree for tests, a patch series, and releases that produce every outcome."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from tools.importer.engine import Change, base_files, record_base, render_patch
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot

_FILES = ("a.py", "b.py", "c.py")
_SAID = "    return 'said by the patch'\n"


class PartialSnapshot(DictSnapshot):
    """A snapshot that records which files are read. Its origin lacks the paths in `left_out`."""

    def __init__(
        self, label: str, files: Mapping[str, Blob], *, left_out: Collection[str] = ()
    ) -> None:
        super().__init__(label, {path: files[path] for path in files if path not in left_out})
        self.reads: list[str] = []
        self._left_out = left_out

    def read(self, path: str) -> Blob | None:
        self.reads.append(path)
        return super().read(path)

    def carries(self, path: str) -> bool:
        return path not in self._left_out


def function(name: str, body: str = "    return 'said by upstream'\n") -> str:
    """Return the text of a four-line function, unique to `name`."""
    return f"def {name}():\n    # what {name} is for\n{body}\n"


def upstream(label: str, **texts: str | None) -> PartialSnapshot:
    """Return a release whose files a.py, b.py and c.py have three functions each.

    `texts` maps file names to replacement texts; None removes the file. Every release also has
    other files, which no patch touches.
    """
    files = {
        path: "".join(function(f"{path[0]}_{number}") for number in range(3)) for path in _FILES
    }
    files |= {f"other/{number}.py": f"number = {number}\n" for number in range(50)}
    for name, text in texts.items():
        path = f"{name}.py"
        if text is None:
            del files[path]
        else:
            files[path] = text
    return PartialSnapshot(label, {path: Blob(text.encode()) for path, text in files.items()})


def write_series(root: Path, *, label: str = "v1") -> Series:
    """Write a series of one patch per file to `root`/`label`, with its base; return the series."""
    base = upstream(label)
    directory = root / label
    directory.mkdir(parents=True)
    for path in _FILES:
        before = base.read(path)
        assert before is not None
        name = f"{path[0]}_1"
        after = Blob(before.data.decode().replace(function(name), function(name, _SAID)).encode())
        patch = render_patch(_header(name), [Change(path, path, before, after)])
        (directory / f"{path[0]}.patch").write_bytes(patch)
    (directory / "series").write_text("".join(f"{path[0]}.patch\n" for path in _FILES))
    series = load_series(directory)
    for file, data in base_files(record_base(series, base)).items():
        (directory / file).write_bytes(data)
    return series


def _header(name: str) -> bytes:
    return (
        f"Subject: Let {name} say what we want\n"
        "Owner: somebody\n"
        "Reason: build\n"
        "Upstream: None yet\n"
        "Extension-point-considered: None\n"
        "Test: some_test.py::test_some\n"
    ).encode()
