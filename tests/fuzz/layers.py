# SPDX-License-Identifier: Apache-2.0
"""Templates for layers: convolutions, norms, embeddings, losses, attention, training steps."""

from __future__ import annotations

from tests.fuzz.template import (
    Operator,
    X,
    has_dims,
    has_gradient,
    is_disjoint,
    is_filled,
    is_finite,
    is_long,
    is_matrix,
    is_single,
    row,
)

_MATRIX = (is_single, is_matrix, is_finite, is_filled)
# Clamp values, because normalization divides by a standard deviation that may be tiny.
_SMALL = "{x}.clamp(-2, 2)"


def _layer(template: str, *others: tuple[object, ...]) -> Operator:
    return row(template.replace("SMALL", _SMALL), _MATRIX, *others, rounds=True)  # type: ignore[arg-type]


LAYERS = [
    _layer("{out} = F.conv2d(SMALL[None, None], torch.ones(2, 1, 2, 1, device=device), padding=1)"),
    _layer(
        "{out} = F.conv2d(SMALL[None, None], values((1, 1, 3, 3), torch.float32, 5), padding=1)"
    ),
    _layer(
        "{out} = F.conv2d(SMALL.expand(4, *{x}.shape)[None], values((4, 2, 1, 1), torch.float32, 6), "
        "values((4,), torch.float32, 1), stride=2, groups=2)"
    ),
    _layer("{out} = F.conv1d(SMALL[None], {x}.clamp(-1, 1)[:, :, None], padding=2, dilation=2)"),
    _layer(
        "{out} = F.conv_transpose1d(SMALL[:, None], values((1, 2, 2), torch.float32, 3), stride=2)"
    ),
    _layer(
        "{out} = F.conv_transpose2d(SMALL[None, None], values((1, 1, 2, 2), torch.float32, 3), "
        "stride=2, padding=1, output_padding=1)"
    ),
    _layer("{out} = F.conv3d(SMALL[None, None, None], values((1, 1, 1, 2, 2), torch.float32, 8))"),
    _layer("{out} = F.max_pool2d(SMALL[None, None], 2, stride=1, padding=1)"),
    _layer("{out} = F.avg_pool2d(SMALL[None, None], 2, stride=1, padding=1)"),
    _layer("{out} = F.adaptive_avg_pool2d(SMALL[None, None], 2)"),
    _layer("{out} = F.unfold(SMALL[None, None], 2, padding=1)"),
    _layer("{out} = F.pixel_shuffle(SMALL.expand(4, *{x}.shape), 2)"),
    _layer("{out} = F.interpolate(SMALL[None, None], size=(5, 4), mode='bilinear')"),
    _layer("{out} = F.pad(SMALL[None], (1, 1), mode='reflect')"),
    _layer("{out} = F.pad(SMALL[None], (2, 1), mode='replicate')"),
    _layer("{out} = F.grid_sample(SMALL[None, None], values((1, 2, 2, 2), torch.float32, 4) / 2)"),
    _layer("{out} = F.batch_norm(SMALL, None, None, training=True)"),
    _layer(
        "m = values(({x}.shape[1],), torch.float32, 1); v = torch.ones_like(m); "
        "{out} = F.batch_norm(SMALL, m, v, training=True); {out} = {out} + m + v"
    ),
    _layer("{out} = F.batch_norm(SMALL, {x}[0].detach() * 0, {x}[0].detach() * 0 + 1)"),
    _layer("{out} = F.group_norm(SMALL[None], 1, eps=0.1)"),
    _layer("{out} = F.instance_norm(SMALL[None], eps=0.1)"),
    _layer("{out} = F.layer_norm(SMALL, {x}.shape[-1:], SMALL[0], SMALL[0], eps=0.1)"),
    _layer("{out} = F.rms_norm(SMALL, {x}.shape[-1:])"),
    _layer("{out} = F.normalize(SMALL + 3, dim=<dim>)"),
    _layer("{out} = F.dropout({x}, 0.5, training=False)"),
    _layer("{out} = F.glu(torch.cat([SMALL, SMALL], 1))"),
    _layer("{out} = F.prelu({x}, torch.full((1,), 0.25, device=device))"),
    _layer("{out} = F.leaky_relu({x}) + F.elu(SMALL) + F.hardswish(SMALL) + F.mish(SMALL)"),
    _layer(
        "{out} = F.bilinear(SMALL, SMALL, torch.ones(2, {x}.shape[1], {x}.shape[1], device=device))"
    ),
    _layer(
        "{out} = F.cross_entropy(SMALL, torch.zeros(len({x}), dtype=torch.int64, device=device))"
    ),
    _layer("{out} = F.cross_entropy(SMALL, SMALL.softmax(1), label_smoothing=0.25)"),
    _layer(
        "{out} = F.nll_loss(SMALL, torch.full(({x}.shape[0],), {x}.shape[1] - 1, device=device), "
        "reduction='none')"
    ),
    _layer("{out} = F.mse_loss(SMALL, {x}.detach() * 0.5) + F.smooth_l1_loss(SMALL, {x} * 0)"),
    _layer("{out} = F.binary_cross_entropy_with_logits(SMALL, SMALL.sigmoid())"),
    _layer("{out} = F.kl_div(SMALL, SMALL.sigmoid(), reduction='batchmean')"),
    _layer("{out} = F.cosine_similarity(SMALL + 3, SMALL.flip(0) + 3, dim=<dim>)"),
    _layer("{out} = torch.cdist(SMALL, SMALL.flip(0) + 5)"),
    _layer("{out} = F.scaled_dot_product_attention(SMALL[None], SMALL[None], {x}[None])"),
    _layer(
        "{out} = F.scaled_dot_product_attention(SMALL[None], SMALL[None], {x}[None], is_causal=True)"
    ),
    _layer(
        "torch.manual_seed(3); m = torch.nn.MultiheadAttention({x}.shape[1], 1).to(device); "
        "{out}, w = m(SMALL[None], SMALL[None], SMALL[None])"
    ),
    _layer(
        "torch.manual_seed(4); m = torch.nn.LSTM({x}.shape[1], 2, batch_first=True).to(device); "
        "{out}, (h, c) = m(SMALL[None])"
    ),
    _layer(
        "torch.manual_seed(5); m = torch.nn.GRUCell({x}.shape[1], 3).to(device); {out} = m(SMALL)"
    ),
    row(
        "{out} = F.embedding({y}.abs() % {x}.shape[0], {x}, padding_idx=0, scale_grad_by_freq=True)",
        _MATRIX,
        (is_long,),
    ),
    row(
        "{out} = F.embedding_bag({y}.flatten().abs() % {x}.shape[0], {x}, "
        "torch.tensor([0, 1], device=device), mode='mean')",
        _MATRIX,
        (is_long, lambda y: y.numel() > 1),
        rounds=True,
    ),
    _layer("{out} = F.embedding_bag(torch.arange(len({x}), device=device)[None], {x}, mode='max')"),
]

_TRAIN = (
    "torch.manual_seed(<seed>); m = torch.nn.Sequential(torch.nn.Linear({x}.shape[1], 4), NORM, "
    "torch.nn.ReLU(), torch.nn.Linear(4, 2)).to(device); o = torch.optim.OPTIMIZER; {out} = None\n"
    "for _ in range(3):\n"
    "    o.zero_grad(); loss = m(SMALL.detach()).square().mean(); loss.backward()\n"
    "    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0); o.step()\n"
    "    {out} = loss.detach()"
)


def _training(norm: str, optimizer: str) -> Operator:
    return _layer(_TRAIN.replace("NORM", norm).replace("OPTIMIZER", optimizer))


TRAINING = [
    _training(
        "torch.nn.LayerNorm(4, eps=0.1)", "SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True)"
    ),
    _training("torch.nn.Identity()", "Adam(m.parameters(), 0.05, eps=0.01, amsgrad=True)"),
    _training("torch.nn.Tanh()", "AdamW(m.parameters(), 0.05, eps=0.01, foreach=False)"),
    _training("torch.nn.Tanh()", "RMSprop(m.parameters(), 0.05, eps=0.01, centered=True)"),
    _training("torch.nn.Tanh()", "Adagrad(m.parameters(), 0.05, eps=0.01)"),
    row(
        "o = torch.optim.Adam([{x}], lr=0.125, eps=0.5, weight_decay=0.25, maximize=True); o.step()",
        (is_single, has_gradient, is_finite),
        rounds=True,
    ),
    row(
        "torch.nn.utils.clip_grad_value_([{x}], 0.5)",
        (is_single, has_gradient, is_finite),
        rounds=True,
    ),
    row("torch._foreach_mul_([{x}.detach()], 2)", (is_single, is_disjoint, lambda x: x.is_leaf)),
]

# The set of operators that autocast runs in float32 depends on the device type. These templates use
# only operators that autocast runs in bfloat16 on every device type.
AUTOCAST = [
    row(
        "with torch.autocast(device.type, torch.bfloat16): {out} = F.linear({x}, {x}.clamp(-2, 2))",
        _MATRIX,
        rounds=True,
    ),
    row(
        "with torch.autocast(device.type, torch.bfloat16): {out} = torch.cat([{x} @ {x}.mT, {x}], 1)",
        _MATRIX,
        rounds=True,
        tame=True,  # Only the CPU's autocast checks the dtypes of the arguments.
    ),
    row(
        "w = {x}.detach().clamp(-2, 2).requires_grad_()\n"
        "with torch.autocast(device.type, torch.bfloat16): l = w @ w.mT\n"
        "l.float().sum().backward(); {out} = w.grad",
        _MATRIX,
        rounds=True,
    ),
    row(
        "with torch.autocast(device.type, torch.bfloat16), torch.no_grad(): "
        "{out} = F.conv1d({x}.clamp(-2, 2)[None], {x}.clamp(-2, 2)[:, :, None])",
        _MATRIX,
        rounds=True,
    ),
    row(
        "with torch.autocast(device.type, torch.bfloat16):\n"
        "    with torch.autocast(device.type, enabled=False): {out} = {x} @ {x}.mT",
        (is_single, has_dims(2)),
    ),
    row("{out} = torch.is_autocast_enabled(device.type) + {x} * 0", X),
]
