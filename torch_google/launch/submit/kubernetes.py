# SPDX-License-Identifier: Apache-2.0
"""Run a job on Kubernetes through kubectl: apply its manifest, follow its logs, get its status."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from torch_google.launch.submit.scheduler import (
    Cancelled,
    Processes,
    SubmitError,
    cancellable,
    say,
)

_POLL = 2.0
_TRIES = 10  # many attempts, because jobs keep running during an outage of the control plane
_DRAIN = 30.0  # seconds to wait for logs after the job has ended
_STARTED = frozenset(("Running", "Succeeded", "Failed"))
# If a container's `state.waiting.reason` is one of these, the job's image is probably wrong.
_HOPELESS = frozenset(
    ("CreateContainerConfigError", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName")
)


@dataclasses.dataclass(frozen=True)
class Submission:
    """A job's manifest, and options for kubectl, such as the cluster and the namespace."""

    objects: dict[str, Any]
    options: tuple[str, ...] = ()

    @property
    def workload(self) -> tuple[str, str]:
        """The kind and name of the object that contains the job's status."""
        item = self.objects["items"][-1]
        return item["kind"].lower(), item["metadata"]["name"]

    @property
    def selector(self) -> str:
        kind, name = self.workload
        label = "jobset.sigs.k8s.io/jobset-name" if kind == "jobset" else "job-name"
        return f"{label}={name}"


def run(submission: Submission) -> int:
    """Run a job until it ends.

    Return 0 if it succeeded, 1 if it failed, or 128 plus the number of the signal that cancelled
    it. Delete the job unless it failed, so that the user can inspect a failed one. Raises
    SubmitError if the cluster rejects the job.
    """
    if shutil.which("kubectl") is None:
        raise SubmitError("kubectl is not on PATH; install it and choose a cluster")
    kind, name = submission.workload
    processes = Processes(sys.stdout)
    try:
        with cancellable():
            _kubectl(submission, ["apply", "--filename=-"], json.dumps(submission.objects))
            say(f"submitted {kind} {name}")
            failure = _follow(submission, processes)
            processes.join(_DRAIN)
    except Cancelled as cancelled:
        say(f"{signal.Signals(cancelled.signal).name}: deleting {kind} {name}")
        _delete(submission)
        processes.stop()
        say("cancelled")
        return 128 + cancelled.signal
    finally:
        processes.stop()
    if failure:
        say(f"failed: {failure}; `kubectl delete {kind} {name}` deletes it")
        return 1
    _delete(submission)
    say("succeeded")
    return 0


def _follow(submission: Submission, processes: Processes) -> str:
    """Show a job's logs and progress until it ends. Return the reason if it failed, or ""."""
    followed: set[str] = set()
    shown = ""
    while True:
        result = _result(submission)
        pods = _get(submission, ["pods", f"--selector={submission.selector}"])["items"]
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in followed and pod["status"].get("phase") in _STARTED:
                followed.add(name)
                command = ["kubectl", *submission.options, "logs", "--follow", name]
                processes.start(command, os.environ)
        if result is not None:
            return result
        progress = _progress(pods)
        if progress != shown:
            shown = progress
            say(progress)
        time.sleep(_POLL)


def _result(submission: Submission) -> str | None:
    """Return "" if the job has succeeded, the reason if it has failed, or None if it is running."""
    kind, name = submission.workload
    status = _get(submission, [kind, name]).get("status", {})
    for condition in status.get("conditions") or []:
        if condition.get("status") != "True":
            continue
        if condition["type"] in ("Complete", "Completed"):
            return ""
        if condition["type"] == "Failed":
            return str(condition.get("message") or condition.get("reason") or "no reason is given")
    return None


def _progress(pods: list[dict[str, Any]]) -> str:
    """Return a summary such as `2 pods: 1 Pending (ImagePullBackOff), 1 Running`."""
    states: collections.Counter[str] = collections.Counter()
    for pod in pods:
        state = pod["status"].get("phase", "Unknown")
        reasons = _waiting_reasons(pod)
        states[f"{state} ({', '.join(reasons)})" if reasons else state] += 1
    listed = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    line = f"{len(pods)} pods: {listed}" if pods else "no pods yet"
    if any(reason in _HOPELESS for pod in pods for reason in _waiting_reasons(pod)):
        line += "; if this stays, press Ctrl-C and correct the image"
    return line


def _waiting_reasons(pod: dict[str, Any]) -> list[str]:
    reasons = {
        container.get("state", {}).get("waiting", {}).get("reason", "")
        for container in pod["status"].get("containerStatuses") or []
    }
    return sorted(reasons - {""})


def _get(submission: Submission, arguments: list[str]) -> dict[str, Any]:
    """Run `kubectl get` and return its JSON output. Retry if it fails."""
    for attempt in range(1, _TRIES + 1):
        try:
            output = _kubectl(submission, ["get", *arguments, "--output=json"])
        except SubmitError:
            if attempt == _TRIES:
                raise
            time.sleep(_POLL)
        else:
            value: dict[str, Any] = json.loads(output)
            return value
    raise AssertionError("unreachable: the last attempt returns or raises")


def _delete(submission: Submission) -> None:
    arguments = ["delete", "--filename=-", "--ignore-not-found", "--cascade=foreground"]
    _kubectl(submission, arguments, json.dumps(submission.objects))


def _kubectl(submission: Submission, arguments: list[str], data: str = "") -> str:
    """Run kubectl and return its output. If it fails, raises SubmitError with its message."""
    done = subprocess.run(
        ["kubectl", *submission.options, *arguments],
        input=data,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,  # so that Ctrl-C reaches only this process, not kubectl
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise SubmitError(f"kubectl {arguments[0]}: exit status {done.returncode}: {lines[-1]}")
    return done.stdout
