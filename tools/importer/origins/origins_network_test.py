# SPDX-License-Identifier: Apache-2.0
"""Check releases from the host's package index and Debian mirror, over the network.

This is not part of the test suite, because it downloads 200 MB and takes a minute. Run it after
changing wheel_contents.json, and when upstream changes the contents of its wheels:

    TORCH_GOOGLE_NETWORK=1 python -m pytest tools/importer/origins/origins_network_test.py
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.origin_fixtures import Lines
from tools.importer.project import Project, load_project
from tools.importer.snapshot import blob_id

pytestmark = pytest.mark.skipif(
    not os.environ.get("TORCH_GOOGLE_NETWORK"),
    reason="fetches 200 MB; set TORCH_GOOGLE_NETWORK=1 to run it",
)

# A release that is available from both Debian stable and the package index.
_BOTH = "v2.6.0"


@pytest.fixture(name="project")
def _project() -> Project:
    return load_project(Path(__file__).absolute().parents[3])


def test_a_wheel_is_what_debian_has_of_it(project: Project) -> None:
    wheel = resolve(project, Lines(), tag=_BOTH, origin="wheel")
    source = resolve(project, Lines(), tag=_BOTH, origin="debian")
    wheel_paths, source_paths = set(wheel.paths()), set(source.paths())
    assert wheel_paths - source_paths == set(), "what the build made passes for upstream's"
    wrong = sorted(path for path in source_paths - wheel_paths if wheel.carries(path))
    assert wrong == [], "upstream's files that a wheel does not hold, and that would count as gone"
    for path in sorted(wheel_paths):
        one, other = wheel.read(path), source.read(path)
        assert one is not None
        assert other is not None
        assert one.oid == other.oid, path
        assert source.carries(path)
    assert len(wheel_paths) > 2000
    assert source.read("setup.py") is not None
    assert not source.carries("third_party/fmt/CMakeLists.txt")


@pytest.mark.parametrize("tag", ["v2.13.0", "v2.14.1"])
def test_a_release_is_read_fast_and_again(project: Project, tag: str) -> None:
    lines = Lines()
    snapshot = resolve(project, lines, tag=tag)
    assert snapshot.label == tag
    assert any(line.startswith(f"{tag} from ") for line in lines.said)
    assert snapshot.commit
    assert snapshot.natives == ("+cpu" in str(snapshot.pin.get("version")))
    started = time.process_time()
    again = open_pin(project, lines, snapshot.pin)
    modules = sorted(path for path in again.paths() if path.endswith(".py"))
    for path in modules[:: len(modules) // 50]:
        blob = again.read(path)
        assert blob is not None
        assert blob.oid == blob_id(blob.data)
    assert time.process_time() - started < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 300 << 10


def test_an_unknown_release(project: Project) -> None:
    with pytest.raises(UserError, match=r"^no v2\.14\.77 of torch: .*Did you mean v2\.1[0-9.]+"):
        resolve(project, Lines(), tag="v2.14.77")
