# SPDX-License-Identifier: Apache-2.0
"""tpu works in the static PAR. The cases cover features that need code outside torch's wheel."""

from __future__ import annotations

import pathlib

import pytest

from tests.static import program

# Each case runs in a separate process, because earlier imports change what an import does.
_CASES = {
    "shapes by values": """
x = torch.tensor([1, 0, 2], device="tpu")
assert x.nonzero().tolist() == [[0], [2]]
assert torch.bincount(x).tolist() == [1, 1, 1]
assert (x.to_sparse() + x.to_sparse()).to_dense().tolist() == [2, 0, 4]
""",
    "decompositions": """
x = torch.rand(1, 4, 2, 2, device="tpu")
assert torch.channel_shuffle(x, 2)[0, :, 0, 0].tolist() == x[0, [0, 2, 1, 3], 0, 0].tolist()
""",
    "operators of a library": """
x = torch.randn(2, 2, 3, device="tpu", requires_grad=True)
for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    kind(3, 3).to("tpu")(x)[0].sum().backward()
assert x.grad.shape == x.shape
""",
    "refusals": """
x = torch.rand(3, device="tpu")
try:
    x[:-1] <<= x[1:]
except RuntimeError as error:
    assert "unsupported operation" in str(error), error
else:
    raise AssertionError("a write over what is read was not refused")
""",
}


@pytest.mark.parametrize("name", _CASES)
def test_on_the_device(name: str, tmp_path: pathlib.Path) -> None:
    code = f"import torch\n{_CASES[name]}"
    outcome = program.interpreter(tmp_path / "cache", "-c", code)
    assert outcome.status == 0, outcome.err
