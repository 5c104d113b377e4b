# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings import against_cpu, rnn_cells

ROWS, SIZE = 3, 4


def states(gates: int, cells: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = [(ROWS, gates * SIZE)] * 2 + [(ROWS, SIZE)] * cells + [(gates * SIZE,)] * 2
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in sizes]


def equal(ours: object, theirs: torch.Tensor) -> None:
    assert isinstance(ours, jnp.ndarray)
    torch.testing.assert_close(against_cpu.to_tensor(ours), theirs)


@pytest.mark.parametrize("biased", [True, False])
def test_lstm(biased: bool) -> None:
    given = [t.requires_grad_() for t in states(4, 1)]
    input_gates, hidden_gates, cx, *biases = given
    biases = biases if biased else [torch.zeros(4 * SIZE, dtype=torch.float64)] * 2
    i, f, g, o = (input_gates + hidden_gates + sum(biases)).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    hy = o.sigmoid() * cy.tanh()
    arrays = [against_cpu.to_array(t) for t in given]
    if not biased:
        arrays[3:] = []
    ours = rnn_cells.lstm_cell(*arrays)
    equal(ours[0], hy.detach())
    equal(ours[1], cy.detach())

    grads = [torch.rand_like(hy), torch.rand_like(cy)]
    expected = torch.autograd.grad([hy, cy], [input_gates, cx], grads)
    of_hy, of_cy = (against_cpu.to_array(t) for t in grads)
    found = rnn_cells.lstm_cell_backward(of_hy, of_cy, arrays[2], ours[1], ours[2], biased)
    for one, other in zip(found, expected, strict=False):
        equal(one, other)
    if biased:
        equal(found[2], expected[0].sum(0))
    else:
        assert found[2] is None


@pytest.mark.parametrize("biased", [True, False])
def test_gru(biased: bool) -> None:
    given = [t.requires_grad_() for t in states(3, 1)]
    input_gates, hidden_gates, hx, *biases = given
    biases = biases if biased else [torch.zeros(3 * SIZE, dtype=torch.float64)] * 2
    of_input, of_hidden = (
        (input_gates + biases[0]).chunk(3, 1),
        (hidden_gates + biases[1]).chunk(3, 1),
    )
    reset, update = (of_input[0] + of_hidden[0]).sigmoid(), (of_input[1] + of_hidden[1]).sigmoid()
    new = (of_input[2] + reset * of_hidden[2]).tanh()
    hy = new + update * (hx - new)
    arrays = [against_cpu.to_array(t) for t in given]
    if not biased:
        arrays[3:] = []
    ours, workspace = rnn_cells.gru_cell(*arrays)
    equal(ours, hy.detach())

    grad = torch.rand_like(hy)
    expected = torch.autograd.grad(hy, [input_gates, hidden_gates, hx], grad)
    found = rnn_cells.gru_cell_backward(against_cpu.to_array(grad), workspace, biased)
    for one, other in zip(found, expected, strict=False):
        equal(one, other)
    if biased:
        equal(found[3], expected[0].sum(0))
        equal(found[4], expected[1].sum(0))
    else:
        assert found[3:] == (None, None)
