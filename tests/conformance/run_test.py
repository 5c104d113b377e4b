# SPDX-License-Identifier: Apache-2.0

import json
from pathlib import Path

import jax.numpy as jnp
import pytest

from tests.conformance import run
from torch_google.tpu.lowerings import lowering
from torch_google.tpu.program.small_table import small_table

__all__ = ["small_table"]
pytestmark = pytest.mark.usefixtures("small_table")


def test_right_lowerings_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "mul,add", "--dtype", "float32,int64", "--samples", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "float32: 2 of 2 passed",
        "int64: 2 of 2 passed",
    ]


def test_wrong_values_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    lowering("aten::cos")(jnp.sin)
    assert run.main(["--ops", "cos", "--dtype", "float32", "--samples", "2"]) == 1
    shown = capsys.readouterr()
    assert "cos float32 wrong 1/2 sample 0: Tensor-likes are not close!" in shown.out
    assert "Fix it, or give the reason in exceptions.json" in shown.err


def test_what_is_not_lowered_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "tan", "--dtype", "float32", "--samples", "1"]) == 1
    assert "tan float32 unsupported 0/1 sample 0: tpu: no lowering for" in capsys.readouterr().out


def test_random_draws_have_their_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--ops", "randn_like", "--dtype", "float32", "--samples", "1"]
    lowering("aten::randn_like", random=True)(lambda x, dtype=None, *, key: jnp.full_like(x, 0.5))
    assert run.main(arguments) == 1
    shown = capsys.readouterr().out
    assert "randn_like float32 wrong" in shown


def test_the_page_and_the_file(tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "outcomes.json"
    options = ["--page", str(page), "--json", str(file), "--samples", "1"]
    run.main(["--ops", "mul,tan", "--dtype", "float32", *options])
    assert [row["outcome"] for row in json.loads(file.read_text())] == ["passed", "unsupported"]
    assert "- float32: 1 of 2 passed, 1 unsupported" in page.read_text()
    assert "| mul | yes |  |" in page.read_text()


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "no_such"]) == 1
    assert capsys.readouterr().err == "run: no operator no_such in op_db. See --list\n"
