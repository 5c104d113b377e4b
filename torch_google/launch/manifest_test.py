# SPDX-License-Identifier: Apache-2.0
"""Test the command that prints manifests."""

from __future__ import annotations

import json

import pytest

from torch_google.launch import kubernetes, manifest

_REQUIRED = ["--name=train", "--image=registry/train:v1"]


def test_options_become_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--tpu=tpu-v6e-slice", "--topology=4x4", "--slices=2", "--retries=1", "--env=A=b=c"]
    assert manifest.main([*_REQUIRED, *options, "--", "--epochs=1"]) == 0
    job = kubernetes.Job(
        name="train",
        image="registry/train:v1",
        arguments=("--epochs=1",),
        slices=2,
        tpu=kubernetes.Tpu("tpu-v6e-slice", "4x4"),
        env=(("A", "b=c"),),
        retries=1,
    )
    assert json.loads(capsys.readouterr().out) == kubernetes.manifest(job)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--env=A", "manifest: --env: found 'A', expected NAME=VALUE"),
        ("--machines=0", "manifest: --machines: found 0"),
        ("--image=", "manifest: --image: found none"),
        ("--name=", "manifest: --name: found ''"),
        ("--tpu=tpu-v6e-slice", "manifest: --topology: found ''"),
    ],
)
def test_mistakes_are_one_line(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifest.main([*_REQUIRED, option]) == 1
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
