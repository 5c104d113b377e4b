# SPDX-License-Identifier: Apache-2.0
"""Compare the outcomes of the tests on tpu with those on the CPU."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.fbcode import outcomes
from tests.upstream.distributed import catalogue, device_use
from tools.presubmit.results import Outcome

_HERE = Path(__file__).parent
# Each of these files contains a list of entries. `tests` is a pattern for file::Class::test, and
# `reason` says why matching tests fail.
_EXCEPTIONS = _HERE / "exceptions.json"
_NOT_APPLICABLE = _HERE / "not_applicable.json"
# The outcomes that TABLE.md is generated from.
RESULTS = _HERE / "results.json"
# For each value of `Outcomes.use`, the key under which results.json lists the passing tests.
_PASSED = {device_use.TPU: "passed on tpu", device_use.HOST: "passed on host", "": "passed"}


class Verdict(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known"  # fails for a cause in exceptions.json
    OTHER_RELEASE = "other release"  # fails with the same error on the CPU: torch has changed
    NOT_APPLICABLE = "not applicable"  # fails for a reason in not_applicable.json
    SKIPPED = "skipped"  # skipped by upstream's own conditions


@dataclasses.dataclass(frozen=True)
class Outcomes:
    """A test's outcomes on both devices. `name` is file::Class::test.

    `cpu` is None if the test did not run on the CPU. `use` says whether the test used tpu: it is
    device_use.TPU, device_use.HOST, or "" if that was not recorded.
    """

    file: str
    name: str
    tpu: Outcome
    tpu_reason: str = ""
    cpu: Outcome | None = None
    cpu_reason: str = ""
    use: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A test with its verdict. `use` has the same meaning as in Outcomes."""

    file: str
    name: str
    verdict: Verdict
    reason: str
    use: str = ""

    @property
    def area(self) -> str:
        return catalogue.area(self.file)

    @property
    def applies(self) -> bool:
        return self.verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.KNOWN)


def results_file(folder: Path, file: str, device: str) -> Path:
    """Return the path of the results file for a test file on a device."""
    return folder / f"{file.replace('/', '.')}.{device}.jsonl"


def collect(folder: Path) -> list[Outcomes]:
    """Read the outcomes of all tests that ran on tpu from the results files in `folder`."""
    result = []
    for file in catalogue.chosen([]):
        on_tpu, on_cpu = (
            outcomes.read(results_file(folder, file, device)) for device in catalogue.DEVICES
        )
        for key, tpu in on_tpu.items():
            if tpu.reason == outcomes.BEGUN:
                continue
            name = "::".join(key)
            cpu = on_cpu.get(on_the_cpu(key))
            test = Outcomes(file, name, tpu.outcome, tpu.reason, use=tpu.device)
            if tpu.outcome is Outcome.FAILED and cpu and cpu.reason != outcomes.BEGUN:
                test = dataclasses.replace(test, cpu=cpu.outcome, cpu_reason=cpu.reason)
            result.append(test)
    return result


def on_the_cpu(key: tuple[str, str]) -> tuple[str, str]:
    """Convert the key of a test on tpu to its key on the CPU. Some names contain the device."""
    suite, test = key
    return suite, _DEVICE_OF_NAME.sub("cpu", test)


# Matches the device in a generated test name, such as test_dtensor_op_db_abs_tpu_float32.
_DEVICE_OF_NAME = re.compile(r"(?<=_)tpu(?=_[a-z]+\d+$)")


def finished(folder: Path, file: str) -> Path:
    """Return the path of the marker file, which exists if all tests of a file ran on tpu."""
    return results_file(folder, file, "tpu").with_suffix(".finished")


def complete(folder: Path) -> list[str]:
    """Return the test files whose tests all ran on tpu."""
    return [file for file in catalogue.chosen([]) if finished(folder, file).exists()]


def failed(folder: Path, file: str) -> bool:
    """Return whether any test in a file failed on tpu."""
    ran = outcomes.read(results_file(folder, file, "tpu"))
    return any(row.outcome is Outcome.FAILED for row in ran.values())


def updated(
    file: Path, tests: Sequence[Outcomes], whole: Sequence[str]
) -> tuple[list[Outcomes], list[str]]:
    """Merge a new run into the outcomes saved in `file`; return them and the complete test files.

    A test file is complete if all its tests ran; `whole` lists the complete test files of the new
    run. A test file's new outcomes replace all its saved outcomes.
    """
    ran = {test.file for test in tests}
    merged = [test for test in load(file) if test.file not in ran] + [*tests]
    order = catalogue.chosen([])
    merged.sort(key=lambda test: order.index(test.file))
    partial = {*incomplete(file)}
    kept = {test.file for test in merged if test.file not in ran and test.file not in partial}
    return merged, [*kept, *whole]


def save(tests: Iterable[Outcomes], file: Path, whole: Sequence[str]) -> None:
    """Write outcomes to a JSON file. `whole` lists the test files whose tests all ran.

    Each test that did not pass has its own line. `use` is written only for passing tests. Raises an
    OSError if the file cannot be written.
    """
    by_file: dict[str, list[Outcomes]] = {}
    for test in tests:
        by_file.setdefault(test.file, []).append(test)
    lines = []
    for name, of_file in by_file.items():
        passed = [test for test in of_file if test.tpu is Outcome.PASSED]
        others = [test for test in of_file if test.tpu is not Outcome.PASSED]
        inner = [f'  "complete": {json.dumps(name in whole)}']
        for use, key in _PASSED.items():
            if names := sorted(test.name for test in passed if test.use == use):
                inner.append(f'  "{key}": {json.dumps(names)}')
        for test in sorted(others, key=lambda test: test.name):
            outcome = [test.tpu.value, _without_folders(test.tpu_reason)]
            outcome += [test.cpu.value, _without_folders(test.cpu_reason)] if test.cpu else []
            inner.append(f"  {json.dumps(test.name)}: {json.dumps(outcome)}")
        lines.append(f' "{name}": {{\n' + ",\n".join(inner) + "\n }")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


# The machine-dependent part of a path: everything before the last folder named `torch`.
_FOLDERS = re.compile(r"(?<![\w.])(/[\w.+-]+)+/(?=torch/)")


def _without_folders(reason: str) -> str:
    return _FOLDERS.sub("", reason)


def load(file: Path = RESULTS) -> list[Outcomes]:
    """Read the outcomes that `save` wrote to a file."""
    result = []
    for name, of_file in json.loads(text(file)).items():
        del of_file["complete"]
        for use, key in _PASSED.items():
            passed = of_file.pop(key, [])
            result += [Outcomes(name, test, Outcome.PASSED, use=use) for test in passed]
        for test, (tpu, tpu_reason, *reference) in of_file.items():
            cpu, cpu_reason = reference or (None, "")
            result.append(
                Outcomes(
                    name, test, Outcome(tpu), tpu_reason, Outcome(cpu) if cpu else None, cpu_reason
                )
            )
    return result


def incomplete(file: Path = RESULTS) -> list[str]:
    """Return the test files in `file` whose tests did not all run."""
    return [name for name, of_file in json.loads(text(file)).items() if not of_file["complete"]]


def judge(tests: Iterable[Outcomes]) -> list[Row]:
    """Return each test with its verdict."""
    known, not_applicable = exceptions(), rules()
    return [_judge(test, known, not_applicable) for test in tests]


def exceptions() -> list[dict[str, str]]:
    """Return the entries of exceptions.json, which are known failures."""
    return json.loads(text(_EXCEPTIONS))


def rules() -> list[dict[str, str]]:
    """Return the entries of not_applicable.json, which are tests that do not apply to tpu."""
    return json.loads(text(_NOT_APPLICABLE))


def reason_for(name: str, entries: Sequence[dict[str, str]]) -> str:
    """Return the `reason` of the first entry that matches the test, or "" if none matches."""
    return next((e["reason"] for e in entries if fnmatchcase(name, e["tests"])), "")


def text(file: Path) -> str:
    """Return the text of a file, which may exist only inside the PAR if it is in this folder."""
    if file.is_file():
        return file.read_text(encoding="utf-8")
    data: bytes = __spec__.loader.get_data(str(file))  # type: ignore[union-attr]
    return data.decode()


def _judge(
    test: Outcomes, known: Sequence[dict[str, str]], not_applicable: Sequence[dict[str, str]]
) -> Row:
    reason = test.tpu_reason
    if test.tpu is Outcome.PASSED:
        verdict = Verdict.PASSED
    elif test.tpu is Outcome.SKIPPED:
        verdict = Verdict.SKIPPED
    elif cause := reason_for(test.name, not_applicable):
        verdict, reason = Verdict.NOT_APPLICABLE, cause
    elif cause := reason_for(test.name, known):
        verdict, reason = Verdict.KNOWN, cause
    elif test.cpu is Outcome.FAILED and _same_error(test.tpu_reason, test.cpu_reason):
        verdict, reason = Verdict.OTHER_RELEASE, test.cpu_reason
    else:
        verdict = Verdict.FAILED
    return Row(test.file, test.name, verdict, reason, test.use)


# Matches a printed tensor. A reason is one line of a message, so its last tensor may be incomplete.
_TENSOR = re.compile(r"tensor\((?:[^()]|\([^()]*\))*\)?")
# Matches a number. Errors count as equal if they differ only in numbers, tensors and device names.
_VARIABLE = re.compile(r"[-+]?\d[\d.]*(e[-+]\d+)?")


def _same_error(one: str, other: str) -> bool:
    return _general(one) == _general(other)


def _general(reason: str) -> str:
    return " ".join(_VARIABLE.sub("0", _TENSOR.sub("tensor", reason.replace("tpu", "cpu"))).split())
