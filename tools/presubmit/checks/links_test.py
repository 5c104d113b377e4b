# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import links, sample_tree

_ROOM = "# A room\n\n## Part\n\n## `torch.tpu`: *what* it_has\n\n## Part\n\n```\n# code\n```\n"
_OTHERS = {"README.md": "The top.", "a/b/README.md": _ROOM, "a/x.py": ""}


@pytest.mark.parametrize(
    "text",
    [
        "[room](b/README.md) and [top](../README.md)",
        "# Title\n[folder](b) and [itself](#title) and [part](b/README.md#part)",
        "[second](b/README.md#part-1) and [marks](b/README.md#torchtpu-what-it_has)",
        "[line](x.py#L3)",
        "[source](x.py), [elsewhere](https://example.com/absent), [mail](mailto:a@example.com)",
        "```\n[code](absent.md)\n```",
        "table[0](1, 2) is no link",
    ],
)
def test_accepts(tmp_path: pathlib.Path, text: str) -> None:
    assert [*links.find(sample_tree.write(tmp_path, {**_OTHERS, "a/doc.md": text}))] == []


@pytest.mark.parametrize("target", ["absent.md", "../a/absent.py", "b/absent.md#part", "../../c"])
def test_rejects(tmp_path: pathlib.Path, target: str) -> None:
    contents = {**_OTHERS, "a/doc.md": f"Fine.\n[good](x.py) [bad]({target})\n"}
    (problem,) = links.find(sample_tree.write(tmp_path, contents))
    assert (problem.path, problem.line) == ("a/doc.md", 2)
    assert problem.what == f"the link to '{target}' leads nowhere"


@pytest.mark.parametrize("target", ["#absent", "b/README.md#part-2", "b/README.md#code"])
def test_rejects_a_heading_that_is_not_there(tmp_path: pathlib.Path, target: str) -> None:
    contents = {**_OTHERS, "a/doc.md": f"# Title\n[itself](#title)\n[bad]({target})\n"}
    (problem,) = links.find(sample_tree.write(tmp_path, contents))
    assert (problem.path, problem.line) == ("a/doc.md", 3)
    document = "a/b/README.md" if target.startswith("b") else "a/doc.md"
    assert problem.what == f"the link to '{target}' names no heading of {document}"
