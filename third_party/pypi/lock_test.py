# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from third_party.pypi import lock

_keys = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
_packages = st.builds(
    lock.Package,
    distribution=st.text(max_size=8),
    version=st.text(max_size=8),
    filename=st.text(max_size=8),
    sha256=st.text(max_size=8),
    requires=st.lists(_keys, unique=True).map(lambda keys: tuple(sorted(keys))),
)
_locks = st.builds(
    lock.Lock,
    inputs=st.text(max_size=8),
    torch_requires=st.lists(_keys, unique=True).map(lambda keys: tuple(sorted(keys))),
    packages=st.dictionaries(_keys, _packages, max_size=4),
    requirements=st.lists(_keys, unique=True, max_size=4).map(lambda keys: tuple(sorted(keys))),
    torch_needs=st.lists(st.text(max_size=8), max_size=4).map(tuple),
    resolved_with=st.dictionaries(_keys, st.text(max_size=8), max_size=4),
)
# On a busy machine, Hypothesis takes seconds to generate the first inputs, which its health check
# would report as an error.
_busy = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@_busy
@given(_locks)
def test_round_trip(value: lock.Lock) -> None:
    assert lock.loads(value.dumps()) == value


@_busy
@given(_locks)
def test_bytes_do_not_depend_on_the_order_of_making(value: lock.Lock) -> None:
    backwards = lock.Lock(
        value.inputs,
        tuple(reversed(value.torch_requires)),
        {key: value.packages[key] for key in reversed(list(value.packages))},
        tuple(reversed(value.requirements)),
        value.torch_needs,
        {key: value.resolved_with[key] for key in reversed(list(value.resolved_with))},
    )
    assert backwards.dumps() == value.dumps()


def test_the_lock_on_disk_is_in_canonical_form() -> None:
    text = lock.FILE.read_text()
    assert lock.loads(text).dumps() == text, "run third_party/pypi/update.py"


def test_the_lock_on_disk_names_no_host_and_no_torch() -> None:
    text = lock.FILE.read_text()
    assert "://" not in text
    assert "torch" not in lock.loads(text).packages


def test_normalize() -> None:
    assert lock.normalize("Foo.-bar_Baz") == "foo_bar_baz"


def test_requirement_key() -> None:
    lines = ["etils[epath]", "jax==0.10.2", "scikit-learn >=1", "GitPython"]
    assert list(map(lock.requirement_key, lines)) == ["etils", "jax", "scikit_learn", "gitpython"]


def test_requirement_lines() -> None:
    assert lock.requirement_lines("# a\n\nnumpy  # why\njax==1\n") == ["numpy", "jax==1"]


def test_torch_requirement_is_read_from_the_wheels_name() -> None:
    pin = {"wheel": {"filename": "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"}}
    assert lock.torch_requirement(json.dumps(pin)) == "torch==2.13.0+cpu"


def test_digest_is_of_the_inputs_and_not_of_their_order() -> None:
    assert lock.digest(["a", "b"], ["c"]) == lock.digest(["b", "a"], ["c"])
    assert len({lock.digest(["a"], []), lock.digest(["a==1"], []), lock.digest(["a"], ["a"])}) == 3
