# SPDX-License-Identifier: Apache-2.0
"""Store cases, their programs (keyed by digest) and the outcomes for each chip in a directory."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.aot.rows import Case, Compilation, Outcome, Program, Sample

# JAX names a module after its function. Programs that differ only in this name are stored once.
_NAME = re.compile(r"\Amodule @\S+")


@dataclass(frozen=True)
class Store:
    """The directory of a run. Files are only added or appended to, so a run can be resumed."""

    folder: Path

    def put(self, text: str) -> str:
        """Store a module's text and return its digest."""
        text = _NAME.sub("module @program", text)
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        file = self.program(digest)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            aside = file.with_suffix(".part")
            aside.write_text(text, encoding="utf-8")
            aside.replace(file)
        return digest

    def program(self, digest: str) -> Path:
        return self.folder / "programs" / f"{digest}.mlir"

    def add_case(self, case: Case, samples: Sequence[Sample]) -> None:
        self._append("cases.jsonl", {"case": asdict(case), "samples": [asdict(s) for s in samples]})

    def cases(self) -> dict[Case, list[Sample]]:
        """Return the samples of each stored case. The last entry for a case wins."""
        return {
            Case(**line["case"]): [_sample(sample) for sample in line["samples"]]
            for line in self._lines("cases.jsonl")
        }

    def add_compilation(self, chip: str, result: Compilation) -> None:
        self._append(f"{chip}.jsonl", asdict(result) | {"outcome": result.outcome.value})

    def compilations(self, chip: str) -> dict[str, Compilation]:
        """Return the outcomes for a chip, keyed by program digest."""
        lines = self._lines(f"{chip}.jsonl")
        results = [Compilation(**line | {"outcome": Outcome(line["outcome"])}) for line in lines]
        return {result.digest: result for result in results}

    def _append(self, name: str, line: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        file = self.folder / name
        if file.exists():
            yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def _sample(fields: dict[str, Any]) -> Sample:
    programs = tuple(Program(**program) for program in fields["programs"])
    return Sample(fields["index"], programs, fields["error"])
