# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from third_party.pypi import host_pip, lock, pip_report, torch_metadata
from third_party.pypi.host_pip import Pip

_ROW = {"metadata": {"name": "Boto.Core", "version": "1.2"}}


def _fake_pip(monkeypatch: pytest.MonkeyPatch, directory: Path, body: str) -> None:
    """Replace pip with a script. In `body`, `report` is the path of the report to write."""
    script = directory / "pip.py"
    script.write_text(
        textwrap.dedent(
            """
            import json, os, sys, time
            arguments = sys.argv[1:]
            (report,) = (a.split("=", 1)[1] for a in arguments if a.startswith("--report="))
            (held,) = (a.split("=", 1)[1] for a in arguments if a.startswith("--constraint="))
            """
        )
        + textwrap.dedent(body)
    )
    monkeypatch.setattr(host_pip, "find", lambda: Pip((sys.executable, str(script))))


def test_the_report_is_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_pip(
        monkeypatch,
        tmp_path,
        """
        with open(report, "w") as file:
            json.dump({"install": [], "held": open(held).read(), "arguments": arguments}, file)
        """,
    )
    report = pip_report.ask(["a", "b>1"], constraints=["x==1", "y==2"], needs=False)
    assert report["held"] == "x==1\ny==2\n"
    assert report["arguments"][-3:] == ["--no-deps", "a", "b>1"]
    assert "--no-deps" not in pip_report.ask(["a"], constraints=[])["arguments"]


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_pip(
        monkeypatch,
        tmp_path,
        "sys.stderr.write('WARNING: x\\nERROR: first\\nERROR: No a==9\\n'); sys.exit(3)",
    )
    with pytest.raises(pip_report.ConflictError) as caught:
        pip_report.ask(["a==9"], constraints=[])
    assert str(caught.value) == "pip exited 3: ERROR: No a==9"


def test_the_causes_of_a_conflict_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _fake_pip(
        monkeypatch,
        tmp_path,
        """
        print("The conflict is caused by:\\n    a 9 depends on b<1\\n    The user requested b==2\\n")
        print("To fix this you could try to:")
        print("ERROR: ResolutionImpossible: for help", file=sys.stderr)
        sys.exit(1)
        """,
    )
    with pytest.raises(pip_report.ConflictError) as caught:
        pip_report.ask(["a==9"], constraints=["b==2"])
    assert str(caught.value) == "pip exited 1: a 9 depends on b<1; The user requested b==2"


def test_a_hopeless_search_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_pip(
        monkeypatch,
        tmp_path,
        f"""
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print("  Downloading other-1-py3-none-any.whl (1 kB)", flush=True)
        for version in range(1_000_000):
            print(f"  Using cached boto3-1.{{version}}-py3-none-any.whl (1 kB)", flush=True)
            time.sleep(0.01)
        """,
    )
    with pytest.raises(pip_report.ConflictError) as caught:
        pip_report.ask(["boto3"], constraints=[], max_retries=7)
    assert str(caught.value) == "pip found no solution after 8 retries, 9 of them of boto3"
    with pytest.raises(ProcessLookupError):  # pip was stopped; otherwise it would run for hours
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_long_search_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake_pip(
        monkeypatch,
        tmp_path,
        f"""
        print("Processing /x/Boto.Core-1.3-py3-none-any.whl (from s3fs)")
        print("  Downloading boto_core-1.2-py3-none-any.whl (1 kB)")
        json.dump({{"install": [{_ROW}]}}, open(report, "w"))
        """,
    )
    monkeypatch.setattr(pip_report, "_SECONDS_BETWEEN_LINES", 0.0)
    messages: list[str] = []
    pip_report.ask(["boto-core"], constraints=[], say=messages.append)
    assert messages[0].endswith("pip has tried 1 packages, last boto_core")
    assert messages[1].endswith("last boto_core, version 2 of it")
    assert messages[2].startswith("boto_core: 1.2, since 1.3 conflicts with locked versions.")


@pytest.mark.full
def test_the_real_pip_takes_the_stand_in_for_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    requirement = lock.torch_requirement(lock.TORCH_PIN.read_text())
    torch_metadata.write_stand_in(tmp_path, requirement, ("a>1; extra == 'b'",))
    report = pip_report.ask(["torch"], constraints=[requirement], links=tmp_path)
    (row,) = report["install"]
    assert f"torch=={row['metadata']['version']}" == requirement
    assert json.dumps(row["metadata"]["requires_dist"]) == "[\"a>1; extra == 'b'\"]"
