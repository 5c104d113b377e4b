# SPDX-License-Identifier: Apache-2.0
"""Manifests conform to Kubernetes' and JobSet's schemas, and launch reads the pods' variables."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import kubernetes_validate
import pytest
from kubeflow_trainer_api import models

from torch_google.launch import Place, place
from torch_google.launch.kubernetes import Job, JobError, Tpu, manifest

_VERSIONS = ("1.28", "1.37")
_JOB = Job(
    name="train",
    image="registry.example/team/train@sha256:" + 64 * "0",
    arguments=("--epochs=1",),
    machines=2,
    processes=4,
    env=(("JAX_PLATFORMS", "cpu"),),
    queue="research",
)
_ONE_SLICE = dataclasses.replace(_JOB, tpu=Tpu("tpu-v5p-slice", "2x2x4"), processes=1)
_JOBS = {
    "job": _JOB,
    "one machine": dataclasses.replace(_JOB, machines=1, queue=""),
    "slice": _ONE_SLICE,
    "slices": dataclasses.replace(_ONE_SLICE, slices=2),
    "jobset": dataclasses.replace(_JOB, retries=3),
}


def _item(job: Job, kind: str) -> dict[str, Any]:
    (item,) = [item for item in manifest(job)["items"] if item["kind"] == kind]
    return dict(item)


def _check(item: dict[str, Any]) -> None:
    """Raise an exception if `item` has an unknown field or a value of the wrong type."""
    if item["kind"] == "JobSet":
        # from_dict drops unknown fields, so `item` equals the result only if it has none.
        assert models.JobsetV1alpha2JobSet.from_dict(item).to_dict() == item
        for replicated in item["spec"]["replicatedJobs"]:
            template = {"metadata": {"name": "x"}, **replicated["template"]}
            _check({"apiVersion": "batch/v1", "kind": "Job", **template})
        return
    for version in _VERSIONS:
        kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("name", _JOBS)
def test_the_objects_follow_the_schemas(name: str) -> None:
    items = manifest(_JOBS[name])["items"]
    object_kinds = [item["kind"] for item in items]
    assert object_kinds == (["JobSet"] if name in ("slices", "jobset") else ["Service", "Job"])
    for item in items:
        _check(item)


@pytest.mark.parametrize("name", _JOBS)
def test_the_schemas_reject_mistakes(name: str) -> None:
    item = manifest(_JOBS[name])["items"][-1]
    for change in ({"completionz": 1}, {"completions": "two"}):
        damaged = copy.deepcopy(item)
        spec = damaged["spec"]
        if item["kind"] == "JobSet":
            spec = spec["replicatedJobs"][0]["template"]["spec"]
        spec.update(change)
        with pytest.raises((ValueError, AssertionError, kubernetes_validate.ValidationError)):
            _check(damaged)


def _variables(item: dict[str, Any], index: int, job_index: int = 0) -> dict[str, str]:
    """Return the environment variables that a pod with these indices would get."""
    spec = item["spec"]
    if item["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    variables = {"JOB_COMPLETION_INDEX": str(index)}
    for row in container["env"]:
        label = row.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        if label:
            assert label == "metadata.labels['jobset.sigs.k8s.io/job-index']"
        variables[row["name"]] = str(job_index) if label else row["value"]
    return variables


def test_launch_finds_its_place_in_an_indexed_job() -> None:
    item = _item(_JOB, "Job")
    assert place(_variables(item, 1)) == Place(2, 1, "train-0.train")
    assert place(_variables(_item(_JOBS["one machine"], "Job"), 0)) == Place(1)
    service = _item(_JOB, "Service")
    assert service["metadata"]["name"] == item["spec"]["template"]["spec"]["subdomain"]
    assert service["spec"]["selector"] == {"job-name": item["metadata"]["name"]}


def test_launch_finds_its_place_in_a_jobset() -> None:
    host = "train-workers-0-0.train"
    assert place(_variables(_item(_JOBS["jobset"], "JobSet"), 1)) == Place(2, 1, host)
    slices = _item(_JOBS["slices"], "JobSet")
    assert place(_variables(slices, 3, job_index=1)) == Place(8, 7, host)


def test_launch_leaves_one_slice_to_the_variables_of_gke() -> None:
    variables = _variables(_item(_ONE_SLICE, "Job"), 3)
    names = ",".join(f"train-{i}.train" for i in range(4))
    variables |= {"TPU_WORKER_HOSTNAMES": names, "TPU_WORKER_ID": "3"}
    assert place(variables) == Place(4, 3, "train-0.train")


def test_tpus_select_their_nodes() -> None:
    spec = _item(_ONE_SLICE, "Job")["spec"]
    assert (spec["completions"], spec["parallelism"]) == (4, 4)
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
        "cloud.google.com/gke-tpu-topology": "2x2x4",
    }
    assert pod["containers"][0]["resources"]["limits"]["google.com/tpu"] == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Train"}, "name: found 'Train'"),
        ({"name": "x" * 48}, "at most 47"),
        ({"machines": 0}, "machines: found 0"),
        ({"image": ""}, "image: found none"),
        ({"tpu": Tpu("tpu-v5p-slice", "2x2x")}, "topology: found '2x2x'"),
        ({"tpu": Tpu("tpu-v5p-slice", "3x3", chips=4)}, "3x3 has 9 chips"),
    ],
)
def test_mistakes_are_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        manifest(dataclasses.replace(_JOB, **change))
    assert "\n" not in str(caught.value)
