# SPDX-License-Identifier: Apache-2.0
"""Templates for lines that torch rejects because of dtypes, shapes, overlaps or autograd state."""

from __future__ import annotations

from tests.fuzz.template import (
    X,
    has_dims,
    is_complex,
    is_filled,
    is_float,
    is_integer,
    is_mask,
    is_matrix,
    is_plain,
    is_real,
    is_single,
    refusal,
)

_INTEGERS = [
    refusal(f"{{out}} = {call}", (is_integer, has_dims(1)))
    for call in (
        "{x}.softmax(0)",
        "{x}.log_softmax(0)",
        "F.gelu({x})",
        "F.silu({x})",
        "F.elu({x})",
        "F.leaky_relu({x})",
        "F.softplus({x})",
        "F.layer_norm({x}, {x}.shape[-1:])",
        "{x}.mean(0)",
        "{x}.std(0)",
        "{x}.norm()",
        "{x}.var(0)",
        "{x}.requires_grad_()",
        "{x}.sqrt_()",
        "{x}.add_(0.5)",
        "{x}.div_(2)",
        "torch.lerp({x}, {x}, 0.5)",
        "torch.addcdiv({x}, {x}, {x})",
        "torch.cdist({x}, {x})",
        "torch.complex({x}, {x})",
        "F.mse_loss({x}, {x}).backward()",
        "F.cross_entropy({x}, {x})",
    )
]
# inv always rejects integer matrices. `tame`: never ignore this condition, because inv also rejects
# singular float matrices, but rounding may make such a matrix invertible on one device only.
_INTEGERS.append(refusal("{out} = torch.linalg.inv({x})", (is_integer, has_dims(1)), tame=True))
_COMPLEX = [
    refusal(f"{{out}} = {call}", (is_complex,))
    for call in (
        "{x} < {x}",
        "{x} >= 1",
        "{x}.max()",
        "{x}.sort(-1)",
        "{x}.argmax()",
        "{x}.amin()",
        "{x}.clamp(0, 1)",
        "{x}.relu()",
        "{x}.floor()",
        "{x}.round()",
        "{x} // 2",
        "{x} % 2",
        "{x}.topk(1)",
        "{x}.median()",
        "{x}.cummax(0)",
        "torch.maximum({x}, {x})",
        "{x}.abs_()",
        "{x}.float().add_({x})",
        "{x}.softmax(0).long() & 1",
        "F.gelu({x})",
        "F.hardtanh({x})",
        "torch.atan2({x}, {x})",
        "int({x})",
    )
]
_MASKS = [
    refusal(f"{{out}} = {call}", (is_mask, has_dims(1)))
    for call in (
        "{x} - {x}",
        "-{x}",
        "{x}.neg_()",
        "{x}.add_(1)",
        "{x}.cumsum(0).softmax(0)",
        "{x} @ {x}",
        "{x}.mean()",
        "{x}.median()",
        "{x}.argmax()",
        "{x}.sign() + {x}.floor()",
        "torch.addcmul({x}, {x}, {x})",
        "torch.einsum('i...,i...->i', {x}, {x})",
        "F.relu({x})",
    )
]
_SHAPES = [
    refusal(f"{{out}} = {call}", (is_real, has_dims(1)))
    for call in (
        "{x} + torch.ones(7, 5, device=device)",
        "{x}.view(-1, 7)",
        "{x}.reshape(7, 11)",
        "{x}.expand(3, 7)",
        "{x}.transpose(0, 5)",
        "{x}.sum(4)",
        "{x}.squeeze(7)",
        "{x}[99]",
        "{x}[0, 0, 0, 0, 0, 0]",
        "{x}.narrow(0, 1, 99)",
        "{x}.select(0, 77)",
        "{x}.permute(0, 0)",
        "{x}.unfold(0, 99, 1)",
        "{x}.split([1, 99])",
        "{x}.flip(9)",
        "{x}.topk(99)",
        "{x}.diagonal(0, 0, 0)",
        "torch.cat([{x}, {x}[..., None, None]])",
        "torch.stack([{x}, {x}[..., None]])",
        "{x} @ torch.ones(13, device=device)",
        "{x} @ {x}.bool()",
        "torch.mm({x}, {x}[0])",
        "torch.bmm({x}, {x})",
        "{x}.gather(0, {x} / 2)",
        "{x}.index_select(0, torch.ones(1, device=device))",
        "{x}.take(torch.ones(1, device=device))",
        "{x}.scatter_add_(0, torch.zeros(1, dtype=torch.int64, device=device), {x}.bool())",
        "torch.where({x}, {x}, {x})",
        "{x}.masked_fill({x}, 1)",
        "{x}.logical_and_({x}[None, None, None])",
        "{x}.item() + {x}[None].tolist()",
        "bool(torch.ones(2, device=device))",
        "{x}.view(torch.complex128).view(torch.int8)",
        "torch.einsum('ij->ik', {x})",
        "F.conv1d({x}, {x})",
        "F.linear({x}, torch.ones(2, 17, device=device))",
        "F.embedding({x} / 2, {x})",
        "torch.linalg.cholesky({x}[..., None, None].expand(*{x}.shape, 2, 3))",
        "torch.full((-1,), 1.0, device=device)",
        "torch.empty({x}.shape, dtype=torch.int64, device=device).copy_({x}[None, None])",
        "torch.mean({x}, 0, out=torch.empty(0, dtype=torch.bool, device=device))",
        "torch.add({x}, 0.5, out=torch.empty(0, dtype=torch.int64, device=device))",
        "F.pad({x}, (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))",
        "F.max_pool1d({x}[None], 99)",
        "F.one_hot({x} / 2)",
        "{x}.cross({x})",
        "torch.nn.Linear(99, 2).to(device)({x})",
        "torch.nn.LayerNorm(99).to(device)({x})",
    )
]
_WRITES = [
    refusal(line, (is_real, has_dims(1), is_filled))
    for line in (
        "{x}.expand(2, *{x}.shape).add_(1)",
        "{x}.expand(2, *{x}.shape)[:, 0] = 1",
        "{x}.expand(2, *{x}.shape).copy_({x})",
        "{x}.expand(2, *{x}.shape).masked_fill_({x} > 0, 1)",
        "torch.add({x}, 1, out={x}.expand(2, *{x}.shape))",
        "{x}.unfold(0, 1, 1).expand(2, *{x}.unfold(0, 1, 1).shape).zero_().mul_(2)",
        "{x}.add_(torch.ones(3, *{x}.shape, device=device))",
        "{x}.copy_(torch.ones(5, 3, *{x}.shape, device=device))",
        "{x}[..., 0] = torch.ones(3, 11, device=device)",
        "{x}[:1] += torch.ones(2, 9, 9, device=device)",
        "{x}.mul_({x}.to(torch.complex64))",
        "{x}.addmm_(torch.ones(1, 3, device=device), torch.ones(3, 1, device=device))",
        "torch.cumsum({x}[:-1], 0, out={x}[1:])",
        "torch.mul({x}[:-1], 2, out={x}[1:])",
    )
]
_GRADIENTS = [
    refusal("{x}.add_(1)", (is_single, lambda x: x.is_leaf and x.requires_grad)),
    refusal("{x}[..., :1] = 2", (is_single, lambda x: x.is_leaf and x.requires_grad, has_dims(1))),
    refusal("{x}.sum().backward()", (is_float, is_plain)),
    refusal(
        "{x}.sum().backward(); {x}.sum().backward()",
        (is_single, lambda x: x.requires_grad and not x.is_leaf),
    ),
    refusal("{x}.backward()", (is_single, lambda x: x.requires_grad and x.numel() > 1)),
    refusal("y = {x}.exp(); y.add_(1); y.sum().backward()", (is_single, lambda x: x.requires_grad)),
    refusal(
        "torch.autograd.grad({x}.sum(), [torch.ones(1, device=device, requires_grad=True)])",
        (is_single, lambda x: x.requires_grad),
    ),
    refusal("{x}.grad = torch.ones(7, device=device)", (is_single, lambda x: x.is_leaf)),
    refusal(
        "{x}.unbind(0)[0].add_(1)",
        (is_single, lambda x: x.requires_grad and x.dim() > 0 and x.numel() > 0),
    ),
    refusal("with torch.inference_mode(): y = {x} * 2\ny.requires_grad_()", (is_single,)),
    refusal("with torch.inference_mode(): y = {x} * 2\ny.add_(1)", (is_single,)),
    refusal("torch.func.grad(lambda x: x * 2)({x})", (is_single, lambda x: x.numel() > 1)),
    refusal("torch.vmap(lambda x: x.item())({x})", (is_single, has_dims(1), is_filled)),
    refusal("torch.vmap(lambda x: x)({x}, in_dims=3)", (is_single, is_matrix)),
]
_NUMBERS = [
    refusal("{out} = len({x})", (lambda x: x.dim() == 0,)),
    refusal("{out} = [*{x}]", (lambda x: x.dim() == 0,)),
    refusal("{out} = {x}[0]", (lambda x: x.dim() == 0,)),
    refusal("{out} = {x}.cummax(1)", (lambda x: x.dim() == 0, is_real)),
    refusal("{out} = {x}.max()", (lambda x: x.numel() == 0,)),
    refusal("{out} = {x}.argmin()", (lambda x: x.numel() == 0,)),
    refusal("{out} = {x}.max(0)", (lambda x: x.shape[:1] == (0,),)),
    refusal("{out} = {x}.item()", (lambda x: x.numel() != 1,)),
    refusal(
        "{out} = {x}.median(0).values + {x}.mode(0).values",
        (lambda x: x.shape[:1] == (0,), is_real),
    ),
    refusal("{out} = {x} + 'a'", X),
    refusal("{out} = {x}.to('nowhere')", X),
    refusal("{out} = {x}.view(2.5)", X),
    refusal("{out} = {x}.sum(dim='a')", X),
]

# Lines that are rejected because of a tensor's values, which tpu checks only in debug mode.
_VALUES = [
    refusal(f"{{out}} = {call}", (is_single, has_dims(1), is_filled), values=True)
    for call in (
        "{x}[[99]]",
        "{x}[torch.tensor([-99], device=device)]",
        "{x}.index_select(0, torch.tensor([99], device=device))",
        "{x}.gather(0, torch.full_like({x}, 99, dtype=torch.int64))",
        "{x}.take(torch.tensor([9999], device=device))",
        "{x}.scatter_add(0, torch.full_like({x}, -1, dtype=torch.int64), {x})",
        "{x}.index_add(0, torch.tensor([77], device=device), {x}[:1])",
        "{x}.index_put((torch.tensor([77], device=device),), {x}[0])",
        "F.embedding(torch.tensor([77], device=device), {x}[:, None].flatten(1))",
        "F.nll_loss({x}.flatten()[None], torch.tensor([777], device=device))",
        "F.cross_entropy({x}.flatten()[None], torch.tensor([-1], device=device))",
        "torch.multinomial(-({x}.flatten().abs() + 1), 1)",
        "torch.multinomial({x}.flatten() * 0, 1)",
        "torch.bernoulli({x} * 0 + 2)",
        "torch.bernoulli({x}, p=1.5)",
        "F.binary_cross_entropy({x} * 0 + 2, {x} * 0)",
        "F.binary_cross_entropy({x} * 0, {x} * 0 + 2).sum()",
        "F.max_unpool1d({x}.flatten()[None], torch.full_like({x}.flatten()[None], 99).long(), 2)",
        "torch.poisson({x} * 0 - 1)",
        "F.one_hot(torch.tensor([5], device=device), 3) + {x}.dim()",
        "torch.linalg.cholesky(-torch.eye(2, device=device)) + {x}.dim()",
        "torch.ones(1, dtype=torch.int64, device=device) // torch.zeros(1, dtype=torch.int64, device=device)",
        "torch.normal({x}, -1 + {x} * 0)",
        "torch.linalg.inv(torch.zeros(2, 2, device=device)) + {x}.dim()",
        "torch.bincount(torch.tensor([-1], device=device)) + {x}.dim()",
    )
]

REFUSALS = [*_INTEGERS, *_COMPLEX, *_MASKS, *_SHAPES, *_WRITES, *_GRADIENTS, *_NUMBERS, *_VALUES]
