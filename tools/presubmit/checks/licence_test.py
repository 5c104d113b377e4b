# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import licence, sample_tree

_HASH = "# SPDX-License-Identifier: Apache-2.0\n"
_SLASHES = "// SPDX-License-Identifier: Apache-2.0\n"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", _HASH),
        ("a.pyi", _HASH),
        ("a.bzl", _HASH + "x = 1\n"),
        ("a.cc", _SLASHES),
        ("a.h", _SLASHES),
        ("run", "#!/bin/bash\n" + _HASH),
        ("BUILD", "# A declaration needs none.\n"),
        ("fix.patch", "Subject: upstream's licence\n"),
        ("data.txt", "1 2 3\n"),
    ],
)
def test_accepts(tmp_path: pathlib.Path, path: str, text: str) -> None:
    assert [*licence.find(sample_tree.write(tmp_path, {path: text}))] == []


@pytest.mark.parametrize(
    ("path", "text", "line", "message"),
    [
        ("a.py", '"""Doc."""\n', 1, "no licence line"),
        ("a.py", "", 1, "no licence line"),
        ("a.py", '"""Doc."""\n' + _HASH, 1, "no licence line"),
        ("a.cc", _HASH, 1, "its licence line reads '# SPDX-License-Identifier: Apache-2.0'"),
        ("a.py", "# SPDX-License-Identifier: MIT\n", 1, "its licence line reads"),
        ("run", "#!/bin/sh\nset -e\n", 2, "no licence line"),
    ],
)
def test_rejects(tmp_path: pathlib.Path, path: str, text: str, line: int, message: str) -> None:
    (problem,) = licence.find(sample_tree.write(tmp_path, {path: text}))
    assert (problem.path, problem.line) == (path, line)
    assert problem.what.startswith(message)
    assert "SPDX-License-Identifier: Apache-2.0" in problem.next_step
