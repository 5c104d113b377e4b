# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files

import pytest
import torch

from torch_google.tpu import release
from torch_google.tpu.csrc import operator_policy
from torch_google.tpu.csrc.operator_policy import POLICIES, NumberCheck, Policy, Releases

# Matches an operator's name with its namespace. Kernel registrations do not match, because they
# omit the namespace: `library.impl("view", view)`.
_NAME = re.compile(r'"\w+::\w')


def test_torch_has_every_operator() -> None:
    errors = list(_wrong_names(POLICIES, v2_6=release.V2_6))
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize(
    ("name", "releases", "v2_6", "error"),
    [
        ("aten::fill", Releases.ALL, True, None),
        ("aten::fill", Releases.ALL, False, None),
        ("aten::fill", Releases.V2_6, True, None),
        ("aten::fill", Releases.LATER, False, None),
        ("aten::fill", Releases.V2_6, False, "aten::fill is marked V2_6, but torch .* has it"),
        ("aten::fill", Releases.LATER, True, "aten::fill is marked LATER, but torch .* has it"),
        ("aten::no", Releases.ALL, True, r"torch .* has no operator aten::no.*releases=.*LATER"),
        ("aten::no", Releases.ALL, False, r"torch .* has no operator aten::no.*releases=.*V2_6"),
        ("aten::no", Releases.V2_6, True, "torch .* has no operator aten::no. Delete its row"),
        ("aten::no", Releases.LATER, True, None),
        ("aten::no", Releases.V2_6, False, None),
        ("aten::fill.Scalar", Releases.ALL, True, "torch .* has no operator aten::fill.Scalar"),
    ],
)
def test_marks_of_releases(name: str, releases: Releases, v2_6: bool, error: str | None) -> None:
    errors = list(_wrong_names([Policy(name=name, releases=releases)], v2_6=v2_6))
    assert len(errors) == (error is not None)
    if error is not None:
        assert re.search(error, errors[0])


def test_transfers_have_two_tensors_and_a_flag() -> None:
    for schema in _schemas(policy.name for policy in POLICIES if policy.crosses_devices):
        assert [str(argument.type) for argument in schema.arguments] == ["Tensor", "Tensor", "bool"]


def test_indices_are_the_second_argument() -> None:
    for schema in _schemas(policy.name for policy in POLICIES if policy.takes_indices):
        assert schema.arguments[1].name == "indices"
        assert str(schema.arguments[1].type) == "List[Optional[Tensor]]"


def test_checked_operators_take_numbers() -> None:
    for policy in POLICIES:
        if policy.numbers is not None:
            types = {str(a.type) for schema in _schemas([policy.name]) for a in schema.arguments}
            # `types` is empty if the operator exists only in the other torch release.
            assert not types or types & {"number", "float"}, policy


def test_the_dtype_that_is_checked_is_the_third_argument() -> None:
    policies = [policy for policy in POLICIES if policy.numbers is NumberCheck.FITS_DTYPE]
    for schema in _schemas(policy.name for policy in policies):
        # Skip two kinds of overload, which may lack the dtype argument. Overloads with `names` are
        # never checked, because torch (v2.6) composes them from other operators. For out=
        # overloads, the check uses the default dtype.
        if not {"names", "out"} & {argument.name for argument in schema.arguments}:
            assert schema.arguments[2].name == "dtype", schema


def test_each_check_is_used() -> None:
    assert {policy.numbers for policy in POLICIES} == {None, *NumberCheck}


def test_names_of_arguments() -> None:
    arguments = {
        argument.name
        for schema in torch._C._jit_get_all_schemas()
        for argument in schema.arguments
        if str(argument.type) == "number"
    }
    assert set(operator_policy.KEYED_INTEGERS) <= arguments


def test_names_are_unique() -> None:
    assert len({policy.name for policy in POLICIES}) == len(POLICIES)
    with pytest.raises(ValueError, match="two policies are named aten::fill. Merge them"):
        operator_policy.table([*POLICIES, Policy(name="aten::fill")])


def test_the_table_depends_on_the_policies_only() -> None:
    table = operator_policy.table()
    assert operator_policy.table(reversed(POLICIES)) == table
    source = files("torch_google.tpu.csrc").joinpath("operator_policy.py").read_text()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, table), done.stderr


def test_a_row() -> None:
    lines = operator_policy.table().splitlines()
    assert '    {.name = "aten::copy_", .crosses_devices = true},' in lines
    assert '    {.name = "aten::full", .numbers = NumberCheck::fits_dtype},' in lines


def test_cpp_names_no_operator() -> None:
    folder = files("torch_google.tpu.csrc")
    sources = [path for path in folder.iterdir() if path.name.endswith((".cpp", ".h"))]
    assert len(sources) > 30
    for path in sources:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not _NAME.search(line), (
                f"{path.name}:{number}: names an operator: {line.strip()}. "
                "Add a property to operator_policy.py instead"
            )


def _wrong_names(policies: Iterable[Policy], *, v2_6: bool) -> Iterator[str]:
    """Yield an error for each policy whose `releases` is wrong for the installed torch."""
    present = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    this = Releases.V2_6 if v2_6 else Releases.LATER
    other = Releases.LATER if v2_6 else Releases.V2_6
    for policy in policies:
        expected = policy.releases in (Releases.ALL, this)
        if expected and policy.name not in present:
            remedy = "Delete its row in operator_policy.py"
            if policy.releases is Releases.ALL:
                remedy += f", or write releases={other} in it if the other release has the operator"
            yield f"torch {torch.__version__} has no operator {policy.name}. {remedy}"
        elif not expected and policy.name in present:
            yield (
                f"operator_policy.py: {policy.name} is marked {policy.releases.name}, "
                f"but torch {torch.__version__} has it. Remove the mark"
            )


def _schemas(names: Iterable[str]) -> Iterator[torch.FunctionSchema]:
    """Yield the schema of every registered overload of the named operators."""
    packets = set(names)
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.partition(".")
        if packet in packets:
            yield torch._C._get_schema(packet, overload)
