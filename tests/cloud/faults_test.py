# SPDX-License-Identifier: Apache-2.0
"""Test saving and loading checkpoints through a faulty network, in this process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
import torch
from torch.distributed.checkpoint import CheckpointException

from examples import cloud_checkpoint
from tests.cloud import stores
from tests.cloud.fault_proxy import Fault, Kind
from tests.cloud.stores import Store
from torch_google import gfile

_FORMS = ("single", "distributed")
_UPLOAD = {"s3": "PUT", "gs": "POST"}
_READ = {"s3": "/checkpoints/", "gs": "/download/"}
_WIDTH = 256  # The weights and the momentum take 512 KiB.


@pytest.fixture(name="store", scope="module", params=stores.SCHEMES)
def _store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with (
        stores.serve(request.param) as store,
        pytest.MonkeyPatch.context() as patch,
        gfile.configured(retry=gfile.Retry(first=0.02)),
    ):
        for key in [key for key in os.environ if key.startswith("AWS_")]:
            patch.delenv(key)
        for key, value in store.environment.items():
            patch.setenv(key, value)
        yield store


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize(
    "kind", [Kind.UNAVAILABLE, Kind.RESET_RESPONSE, Kind.SLOW], ids=lambda kind: kind.name
)
def test_a_load_goes_through(store: Store, kind: Kind, form: str) -> None:
    directory = store.path(f"load/{kind.name}/{form}")
    _save(directory, form, steps=2)
    fault = Fault(kind, "GET", _READ[store.scheme], times=2)
    with store.proxy.faults(fault):
        assert _load(directory, form) == 2
    # A slow response is not an error, so the client does not retry the request.
    assert fault.hits >= (1 if kind is Kind.SLOW else 2)


@pytest.mark.full
@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize(
    "kind",
    [Kind.UNAVAILABLE, Kind.RESET_REQUEST, Kind.LOST_ANSWER],
    ids=lambda kind: kind.name,
)
def test_a_save_goes_through(store: Store, kind: Kind, form: str) -> None:
    directory = store.path(f"save/{kind.name}/{form}")
    _save(directory, form, steps=1)
    fault = Fault(kind, _UPLOAD[store.scheme], times=2)
    with store.proxy.faults(fault):
        _save(directory, form, steps=2)
    assert fault.hits == 2
    assert _load(directory, form) == 2


@pytest.mark.parametrize("form", _FORMS)
def test_a_failure_that_stays_leaves_the_older_checkpoint(store: Store, form: str) -> None:
    directory = store.path(f"stays/{form}")
    _save(directory, form, steps=1)
    fault = Fault(Kind.FORBIDDEN, _UPLOAD[store.scheme], times=10_000)
    # For a distributed checkpoint, torch wraps gfile's error, including its message.
    expected = OSError if form == "single" else CheckpointException
    with store.proxy.faults(fault), pytest.raises(expected, match=re.escape(directory)):
        _save(directory, form, steps=2)
    assert _load(directory, form) == 1


def test_a_large_upload_is_whole_after_a_reset(store: Store) -> None:
    """Reset the connection during one part of a multipart upload, which files over 16 MiB use."""
    path = store.path("large.bin")
    data = os.urandom(1 << 20) * 20
    fault = Fault(Kind.RESET_REQUEST, _UPLOAD[store.scheme], least=1 << 20)
    with store.proxy.faults(fault), gfile.Open(path, "wb") as file:
        file.write(data)
    reset = Fault(Kind.RESET_RESPONSE, "GET", _READ[store.scheme])
    with store.proxy.faults(reset), gfile.Open(path, "rb") as file:
        assert file.read() == data
    assert (fault.hits, reset.hits) == (1, 1)


def _save(directory: str, form: str, *, steps: int) -> None:
    trainer = cloud_checkpoint.Trainer(_WIDTH)
    trainer.train(steps)
    cloud_checkpoint.save(trainer, directory, form)


def _load(directory: str, form: str) -> int:
    """Load a checkpoint, compare it with a new training run, and return its step."""
    loaded, expected = (cloud_checkpoint.Trainer(_WIDTH) for _ in range(2))
    assert cloud_checkpoint.load(loaded, directory, form)
    expected.train(loaded.step)
    torch.testing.assert_close(loaded.state_dict(), expected.state_dict(), rtol=0, atol=0)
    return loaded.step
