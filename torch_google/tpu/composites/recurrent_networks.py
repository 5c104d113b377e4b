# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN, with a forward and a backward program for each layer and direction.

Without this module, torch runs about a dozen small operators for each step of a sequence. It still
does so in two cases: under torch.func transforms, which have rules only for torch's own operators,
and for invalid arguments, because the small operators raise the CPU's errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

_Tensor: TypeAlias = torch.Tensor
_Maybe: TypeAlias = torch.Tensor | None
_Results: TypeAlias = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class _Network:
    """The options that all of torch's recurrent operators share."""

    kind: str
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool

    def run(
        self, x: _Tensor, hx: _Tensor, cx: _Maybe, params: Sequence[_Tensor], lengths: _Maybe
    ) -> tuple[_Tensor, _Tensor, _Maybe]:
        """Return the last layer's output (T, B, H), and each layer's final hidden and cell state.

        The cell states are None unless the network is an LSTM.
        """
        h_last: list[_Tensor] = []
        c_last: list[_Tensor] = []
        weights = self._weights(params, projects=cx is not None and hx.size(2) != cx.size(2))
        for layer in range(self.num_layers):
            outs = []
            for reverse in (False, True) if self.bidirectional else (False,):
                index = len(h_last)
                out, h, c = _layer(
                    self.kind,
                    reverse,
                    lengths,
                    x,
                    hx[index],
                    cx if cx is None else cx[index],
                    weights,
                )
                outs.append(out)
                h_last.append(h)
                c_last.append(c)
            x = torch.cat(outs, -1) if self.bidirectional else outs[0]
            if self.dropout and self.train and layer < self.num_layers - 1:
                x = torch.dropout(x, self.dropout, True)
        return x, torch.stack(h_last), None if cx is None else torch.stack(c_last)

    def accepts(
        self,
        steps: int,
        batch: int,
        x: _Tensor,
        states: Sequence[_Tensor],
        params: Sequence[_Tensor],
    ) -> bool:
        """Return whether the fused layer operator supports these dtypes and shapes."""
        directions = 2 if self.bidirectional else 1
        first = (self.num_layers * directions, batch)
        if steps == 0 or not x.is_floating_point() or any(s.dim() != 3 for s in states):
            return False
        hidden, cell = states[0].shape[2], states[-1].shape[2]
        rows = {"lstm": 4, "gru": 3}.get(self.kind, 1) * cell
        shapes: list[tuple[int, ...]] = []
        for layer in range(self.num_layers):
            features = hidden * directions if layer else x.shape[-1]
            for _ in range(directions):
                shapes += [(rows, features), (rows, hidden), *[(rows,)] * (2 * self.has_biases)]
                shapes += [(hidden, cell)] * (hidden != cell)
        return [tuple(p.shape) for p in params] == shapes and all(
            tuple(s.shape[:2]) == first for s in states
        )

    def _weights(self, params: Sequence[_Tensor], projects: bool) -> Iterator[list[_Maybe]]:
        """For each layer and direction, yield its weights, its biases and its projection."""
        remaining = iter(params)
        for _ in range(self.num_layers * (2 if self.bidirectional else 1)):
            one: list[_Maybe] = [next(remaining), next(remaining)]
            one += [next(remaining), next(remaining)] if self.has_biases else [None, None]
            one.append(next(remaining) if projects else None)
            yield one


def _of_sequence(op: OpOverload, kind: str, x: _Tensor, hx: Any, *rest: Any) -> _Results:
    params, has_biases, num_layers, dropout, train, bidirectional, batch_first = rest
    network = _Network(kind, has_biases, num_layers, dropout, train, bidirectional)
    batch, steps = (0, 1) if batch_first else (1, 0)
    if (
        _transformed()
        or x.dim() != 3
        or not network.accepts(x.shape[steps], x.shape[batch], x, _states(hx), params)
    ):
        return _as_torch_has_it(op, x, hx, *rest)
    x, hx, cx, params = _lowered_precision(x, hx, params)
    out, h, c = network.run(x.transpose(0, 1) if batch_first else x, hx, cx, params, None)
    out = out.transpose(0, 1) if batch_first else out
    return (out, h) if c is None else (out, h, c)


def _of_packed(
    op: OpOverload, kind: str, data: _Tensor, batch_sizes: _Tensor, hx: Any, *rest: Any
) -> _Results:
    params, has_biases, num_layers, dropout, train, bidirectional = rest
    network = _Network(kind, has_biases, num_layers, dropout, train, bidirectional)
    steps = len(batch_sizes)
    if (
        _transformed()
        or data.dim() != 2
        or not network.accepts(steps, int(batch_sizes[:1].sum()), data, _states(hx), params)
    ):
        return _as_torch_has_it(op, data, batch_sizes, hx, *rest)
    data, hx, cx, params = _lowered_precision(data, hx, params)
    # The index of the row in `data` for each step and sequence (T, B). If a sequence has already
    # ended, the step's first row serves as padding.
    starts = batch_sizes.cumsum(0) - batch_sizes
    places = torch.arange(int(batch_sizes[0]))
    live = places < batch_sizes[:, None]
    rows = (starts[:, None] + torch.where(live, places, 0)).reshape(-1).to(data.device)
    positions = live.reshape(-1).nonzero().reshape(-1).to(data.device)
    padded = data.index_select(0, rows).reshape(*live.shape, data.shape[-1])
    out, h, c = network.run(padded, hx, cx, params, live.sum(0).to(data.device))
    out = out.flatten(0, 1).index_select(0, positions)
    return (out, h) if c is None else (out, h, c)


def _kernels() -> dict[str, Callable[..., Any]]:
    kind_of = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}
    table: dict[str, Callable[..., Any]] = {}
    for name, kind in kind_of.items():
        packet = getattr(torch.ops.aten, name)
        table[f"{name}.input"] = partial(_of_sequence, packet.input, kind)
        table[f"{name}.data"] = partial(_of_packed, packet.data, kind)
    return table


KERNELS = _kernels()
"""The implementation of each operator, by name and overload."""


def _layer(
    kind: str,
    reverse: bool,
    lengths: _Maybe,
    x: _Tensor,
    hx: _Tensor,
    cx: _Maybe,
    weights: Iterator[list[_Maybe]],
) -> _Results:
    results: _Results = _Layer.apply(kind, reverse, lengths, x, hx, cx, *next(weights))
    return results


class _Layer(torch.autograd.Function):
    """The operator for one layer in one direction."""

    @staticmethod
    def forward(
        ctx: Any,
        kind: str,
        reverse: bool,
        lengths: _Maybe,
        x: _Tensor,
        hx: _Tensor,
        cx: _Maybe,
        w_ih: _Tensor,
        w_hh: _Tensor,
        b_ih: _Maybe,
        b_hh: _Maybe,
        w_hr: _Maybe,
    ) -> _Results:
        tensors = (x, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr)
        states, h, c, gates, cells = torch.ops.torch_google.recurrent_layer(
            *tensors, lengths, kind, reverse
        )
        ctx.kind, ctx.reverse = kind, reverse
        ctx.save_for_backward(*tensors, lengths, states, gates, cells)
        return states, h, c

    @staticmethod
    def backward(ctx: Any, *grads: _Tensor) -> Any:
        *inputs, lengths, states, gates, cells = ctx.saved_tensors
        x, hx, cx, w_ih, w_hh, b_ih, _, w_hr = inputs
        if torch.is_grad_enabled():
            return None, None, None, *_differentiable(ctx, grads, inputs, lengths)
        gradients = torch.ops.torch_google.recurrent_layer_backward(
            *grads,
            *(x, hx, cx, w_ih, w_hh, b_ih, w_hr, lengths),
            *(states, gates, cells, ctx.kind, ctx.reverse),
        )
        return (
            None,
            None,
            None,
            *(
                None if tensor is None else grad
                for tensor, grad in zip(inputs, gradients, strict=True)
            ),
        )


def _differentiable(
    ctx: Any, grads: Sequence[_Tensor], inputs: Sequence[_Maybe], lengths: _Maybe
) -> list[_Maybe]:
    """Compute gradients that are themselves differentiable, with small operators for each step."""
    # Views give each input a separate gradient, even if inputs share autograd history or are the
    # same tensor.
    inputs = [t.view_as(t) if t is not None and t.requires_grad else t for t in inputs]
    differentiable = [t for t in inputs if t is not None and t.requires_grad]
    states, h, c = _steps(ctx.kind, ctx.reverse, lengths, *inputs)
    pairs = [(states, grads[0]), (h, grads[1])] + ([(c, grads[2])] if inputs[2] is not None else [])
    outs, seeds = zip(*pairs, strict=True)
    gradients = iter(
        torch.autograd.grad(outs, differentiable, seeds, create_graph=True, allow_unused=True)
    )
    return [next(gradients) if t is not None and t.requires_grad else None for t in inputs]


def _steps(
    kind: str, reverse: bool, lengths: _Maybe, x: Any, hx: Any, cx: Any, *weights: Any
) -> _Results:
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    of_input = torch.nn.functional.linear(x, w_ih, b_ih)
    h, c = hx, hx if cx is None else cx
    states: list[_Tensor] = []
    times = range(x.shape[0])
    for time in reversed(times) if reverse else times:
        of_state = torch.nn.functional.linear(h, w_hh, b_hh)
        new_h, new_c = _cell(kind, of_input[time], of_state, h, c)
        if w_hr is not None:
            new_h = new_h @ w_hr.t()
        if lengths is not None:
            live = (time < lengths).unsqueeze(1)
            new_h, new_c = torch.where(live, new_h, h), torch.where(live, new_c, c)
        h, c = new_h, new_c
        states.append(h)
    return torch.stack(states[::-1] if reverse else states), h, c


def _cell(
    kind: str, of_input: _Tensor, of_state: _Tensor, h: _Tensor, c: _Tensor
) -> tuple[_Tensor, _Tensor]:
    if kind == "lstm":
        i, f, g, o = (of_input + of_state).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    if kind == "gru":
        (r, z, n), (r_state, z_state, n_state) = of_input.chunk(3, -1), of_state.chunk(3, -1)
        n = (n + (r + r_state).sigmoid() * n_state).tanh()
        return n + (z + z_state).sigmoid() * (h - n), h
    gates = of_input + of_state
    return (gates.tanh() if kind == "tanh" else gates.relu()), h


def _lowered_precision(
    x: _Tensor, hx: Any, params: Sequence[_Tensor]
) -> tuple[_Tensor, _Tensor, _Maybe, list[_Tensor]]:
    """Return the input, the hidden states, the cell states (None without an LSTM) and the weights.

    If autocast is enabled, they are cast to its dtype.
    """
    states = _states(hx)
    tensors = [x, *states, *params]
    if torch.is_autocast_enabled("tpu"):
        dtype = torch.get_autocast_dtype("tpu")
        tensors = [t.to(dtype) if t.is_floating_point() else t for t in tensors]
    elif any(t.dtype != x.dtype for t in tensors):
        dtype_names = ", ".join(sorted({str(t.dtype).removeprefix("torch.") for t in tensors}))
        raise RuntimeError(
            f"tpu: the input, state and weights of a recurrent network have dtypes {dtype_names}. "
            "Give them one dtype, or use torch.autocast('tpu')"
        )
    cells = tensors[2] if len(states) == 2 else None
    return tensors[0], tensors[1], cells, tensors[1 + len(states) :]


def _states(hx: Any) -> list[_Tensor]:
    """Return [hidden state] or, for an LSTM, [hidden state, cell state]."""
    return [hx] if isinstance(hx, torch.Tensor) else list(hx)


def _transformed() -> bool:
    return torch._C._functorch.peek_interpreter_stack() is not None


def _as_torch_has_it(op: OpOverload, *args: Any) -> Any:
    return op._op_dk(DispatchKey.CompositeImplicitAutograd, *args)
