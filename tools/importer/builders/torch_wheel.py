# SPDX-License-Identifier: Apache-2.0
"""The builder for torch: a published wheel with our patches and our seam (hooks added to torch).

Only the CPU wheel of the build's platform is supported. After an import from any other origin, the
build stays at its current release. third_party/torch/unpack.py creates the tree both here and in
the build.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from third_party.torch.unpack import read_pin, tree_hash_of
from tools.importer.errors import UserError
from tools.importer.origins import OriginSnapshot, open_pin
from tools.importer.origins.cache import user_cache
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import Series
from tools.importer.snapshot import Snapshot
from tools.importer.verify import Rebuilt, rebuild


class TorchWheel:
    """The builder for torch's wheel. Its pin contains tag, commit, version, wheel and tree_hash."""

    def origin_pin(self, project: Project) -> Mapping[str, object]:
        try:
            pin = json.loads(project.pin.read_text(encoding="utf-8"))
            return {
                "kind": "wheel",
                "tag": pin["tag"],
                "project": project.origins["wheel"]["project"],
                "version": pin["version"],
                "filename": pin["wheel"]["filename"],
                "sha256": pin["wheel"]["sha256"],
                "commit": pin["commit"],
                "natives": True,
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{project.pin}: {error!r}. Restore it from version control") from None

    def after_import(
        self, project: Project, new: Snapshot, files: Mapping[str, bytes], report: Report
    ) -> dict[str, object] | None:
        if not (isinstance(new, OriginSnapshot) and new.natives):
            return None
        for key in ("version", "filename", "sha256"):
            if not isinstance(new.pin.get(key), str):
                raise UserError(f"the wheel of {new.label}: its origin did not state its {key}")
        wheel = user_cache().file(str(new.pin["sha256"]))
        assert wheel is not None, "an opened wheel is in the cache"
        old = json.loads(project.pin.read_text(encoding="utf-8"))
        with (
            tempfile.TemporaryDirectory(prefix="series-") as scratch,
            report.progress(f"Hashing the patched tree of {new.label}"),
        ):
            for name, data in files.items():
                (Path(scratch) / name).write_bytes(data)
            tree = tree_hash_of(wheel, Path(scratch), _seam(project))
        return {
            "tag": new.label,
            "commit": new.commit,
            "version": new.pin["version"],
            "wheel": {
                **old["wheel"],  # keep the URL of the index that serves builds without CUDA
                "filename": new.pin["filename"],
                "sha256": new.pin["sha256"],
            },
            "tree_hash": tree,
        }

    def after_edit(
        self, project: Project, snapshot: Snapshot, series: Series, wheel: Callable[[], Path]
    ) -> tuple[bytes, str]:
        pin = read_pin(project.pin)
        pinned = tree_hash_of(wheel(), series.root, _seam(project))
        return _with_hash(project.pin.read_text(encoding="utf-8"), pin.tree_hash, pinned), pinned

    def rebuild(self, project: Project, wheel: Path | None, report: Report) -> Rebuilt:
        pin = read_pin(project.pin)
        wheel = wheel or _pinned_wheel(self.origin_pin(project), project, report)
        if not wheel.is_file():
            raise UserError(f"{wheel}: no such file. Name the wheel of {project.pin}")
        return rebuild(wheel, pin, project.series_of(pin.tag), _seam(project), report)

    def is_generated(self, project: Project, path: str) -> bool:
        return False  # the tree hash also covers torch's generated files


def _pinned_wheel(pin: Mapping[str, object], project: Project, report: Report) -> Path:
    cache, sha256 = user_cache(), str(pin["sha256"])
    if cache.file(sha256) is None:
        open_pin(project, report, pin)
    file = cache.file(sha256)
    assert file is not None, "an opened wheel is in the cache"
    return file


def _seam(project: Project) -> Path:
    return project.pin.parent / "seam"


def _with_hash(text: str, old: str, new: str) -> bytes:
    """Replace only the hash and preserve the rest of the file, which users may have edited."""
    quoted = json.dumps(old)
    head, separator, tail = text.rpartition(quoted)
    assert separator, "read_pin has just read it"
    return f"{head}{json.dumps(new)}{tail}".encode()
