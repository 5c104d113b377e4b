# SPDX-License-Identifier: Apache-2.0
"""Tests estimate's command-line arguments and its one-line error messages."""

from __future__ import annotations

import pytest

from torch_google.tpu.estimate import command


def test_arguments_of_the_function() -> None:
    assert command._keywords(["--batch=8", "--rate=0.5", "--data-type=bfloat16"]) == {
        "batch": 8,
        "rate": 0.5,
        "data_type": "bfloat16",
    }
    assert command._mesh("data=4,model=2") == {"data": 4, "model": 2}
    assert command._mesh("") is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["module"], "'module' is no package.module:function"),
        (["json:none"], "json has no function 'none'"),
        (["json:dumps", "extra"], "write arguments of the function as --name=value"),
        (["json:dumps", "--obj=1"], "returned str. Return \\(model, inputs\\)"),
        (["json:dumps", "--mesh=data"], "returned|write axes as in data=4,model=4"),
        (["no_such_module:f"], "No module named 'no_such_module'"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--mesh=data" in arguments:
        with pytest.raises(ValueError, match="write axes as in data=4,model=4"):
            command._mesh("data")
        return
    assert command.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    import re

    assert re.search(message, error)


def test_help_says_what_the_function_returns(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "model, loss, inputs, optimizer" in capsys.readouterr().out
