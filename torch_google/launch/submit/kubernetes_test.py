# SPDX-License-Identifier: Apache-2.0
"""Run jobs on Kubernetes with a fake kubectl, because the tests have no cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_SUBMIT = (
    "from torch_google.launch.submit.main import main; import sys; sys.exit(main(sys.argv[1:]))"
)
# A script that stands in for kubectl. Its n-th `get job` reports the n-th state in states.json, and
# `get pods` reports the pods in that state.
_KUBECTL = """\
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = [word for word in sys.argv[1:] if word != "--namespace=team"]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
states = json.loads((here / "states.json").read_text())
index = here / "index"
number = int(index.read_text()) if index.exists() else -1
if words[0] == "apply":
    (here / "applied.json").write_text(sys.stdin.read())
    if states[0] == "refuse":
        sys.exit("error: the server refuses this")
elif words[:2] == ["get", "pods"]:
    rows = [
        dict(metadata=dict(name=name), status=dict(phase=phase))
        for name, phase in states[number]["pods"].items()
    ]
    print(json.dumps(dict(items=rows)))
elif words[0] == "get":
    number = min(number + 1, len(states) - 1)
    index.write_text(str(number))
    conditions = [dict(type=t, status="True", message="why") for t in states[number]["conditions"]]
    print(json.dumps(dict(status=dict(conditions=conditions))))
elif words[0] == "logs":
    print("[0] line of", words[-1])
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "kubectl.py").write_text(_KUBECTL)
    kubectl = tmp_path / "kubectl"
    # Python's path may be too long for a "#!" line, so start Python from a shell.
    kubectl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/kubectl.py" "$@"\n')
    kubectl.chmod(0o755)
    return tmp_path


def _submit(cluster: Path, states: list[object], *more: str) -> subprocess.Popen[str]:
    (cluster / "states.json").write_text(json.dumps(states))
    options = ["--par=x_y.par", "--scheduler=kubernetes", "--image=r/x:v1", *more]
    return subprocess.Popen(
        [sys.executable, "-c", _SUBMIT, *options, "--machines=2", "--", "--epochs=1"],
        env=dict(os.environ, PATH=f"{cluster}:{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _state(*conditions: str, **pods: str) -> dict[str, object]:
    return {"conditions": conditions, "pods": pods}


def test_a_job_is_followed_until_it_is_complete(cluster: Path) -> None:
    states: list[object] = [
        _state(),
        _state(a="Running", b="Pending"),
        _state("SuccessCriteriaMet", "Complete", a="Succeeded", b="Succeeded"),
    ]
    process = _submit(cluster, states, "--option=--namespace=team")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert sorted(output.splitlines()) == ["[0] line of a", "[0] line of b"]
    lines = errors.splitlines()
    assert lines[0].startswith("submit: submitted job x-y-")
    assert lines[1:] == [
        "submit: no pods yet",
        "submit: 2 pods: 1 Pending, 1 Running",
        "submit: succeeded",
    ]
    calls = (cluster / "calls").read_text().splitlines()
    assert calls[-1].startswith("delete ")
    service, job = json.loads((cluster / "applied.json").read_text())["items"]
    assert service["metadata"]["name"] == job["metadata"]["name"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["--nproc-per-node=1", "--tee=3", "--", "--epochs=1"]


def test_a_jobset_that_failed_stays(cluster: Path) -> None:
    process = _submit(cluster, [_state("Failed", a="Failed")], "--retries=1", "--name=train")
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (1, "[0] line of a\n")
    assert errors.endswith("submit: failed: why; `kubectl delete jobset train` deletes it\n")
    calls = (cluster / "calls").read_text()
    assert "delete" not in calls
    assert "--selector=jobset.sigs.k8s.io/jobset-name=train" in calls


def test_a_signal_deletes_the_job(cluster: Path) -> None:
    process = _submit(cluster, [_state(a="Running")])
    deadline = time.monotonic() + 300
    calls = cluster / "calls"
    while not (calls.exists() and "logs" in calls.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGINT
    assert errors.endswith("submit: cancelled\n")
    assert calls.read_text().splitlines()[-1].startswith("delete ")


@pytest.mark.parametrize(
    ("option", "status", "message"),
    [
        ("--image=", 1, "submit: --image: found none"),
        ("--tpu=tpu-v5p-slice", 1, "submit: --topology: found ''"),
        ("--name=refused", 3, "submit: kubectl apply: exit status 1: error: the server refuses"),
    ],
)
def test_mistakes_are_one_line(cluster: Path, option: str, status: int, message: str) -> None:
    process = _submit(cluster, ["refuse"], option)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == status
    assert errors.startswith(message)
    assert errors.count("\n") == 1
