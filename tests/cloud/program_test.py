# SPDX-License-Identifier: Apache-2.0
"""Run cloud_checkpoint as a user would: it must resume even after SIGKILL during a save."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from tests.cloud import stores
from tests.cloud.fault_proxy import Fault, Kind
from tests.cloud.stores import Store
from tools.par.testing.budget import only_full

# The HTTP method that each store's client uses to upload a file.
_UPLOAD = {"s3": "PUT", "gs": "POST"}
_SCHEMES = [stores.SCHEMES[0], *only_full(*stores.SCHEMES[1:])]


@pytest.fixture(name="store", scope="module", params=_SCHEMES)
def _store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with stores.serve(request.param) as store:
        yield store


@pytest.mark.parametrize("form", ["distributed", *only_full("single")])
def test_a_writer_that_is_killed_leaves_the_older_checkpoint(store: Store, form: str) -> None:
    name, flag = f"killed/{form}", f"--format={form}"
    assert store.run(name, flag)[0] == "no checkpoint"
    # In the second run, make every upload hang, and kill the program while it waits, so that the
    # server receives no part of that save.
    hang = Fault(Kind.HANG, _UPLOAD[store.scheme], times=100)
    with store.proxy.faults(hang), store.start(name, flag) as writer:
        try:
            assert hang.hit.wait(300), "the writer did not save"
        finally:
            writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=300)
    assert writer.returncode == -signal.SIGKILL
    assert out == "loaded step 3\n"
    loaded, trained = store.run(name, flag)
    assert loaded == "loaded step 3"
    assert re.fullmatch(r"step 6, loss 0\.\d{8}", trained)
