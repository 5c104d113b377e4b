# SPDX-License-Identifier: Apache-2.0
"""Operators whose sizes keep changing share programs, and give the CPU's values.

tests/conformance/padded_test.py runs the same programs on op_db's samples.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)
from torch import nn

from torch_google.tpu import _C
from torch_google.tpu.eager import changing_calls, padded_op

# The first four are compiled for their exact sizes. From 17 to 28, all sizes that are derived from
# the length share buckets; so do those from 40 on.
LENGTHS = (3, 4, 5, 9, 17, 20, 23, 28, 40, 47, 57, 32, 64)


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    torch.tpu.set_size_buckets(True)
    padded_op.OPS.clear()
    changing_calls.forget()
    _C.clear_programs()
    yield
    torch.tpu.set_size_buckets(None)


def stream(
    work: Callable[[str, int], torch.Tensor], lengths: tuple[int, ...] = LENGTHS
) -> list[int]:
    """Compare each step with the CPU. Return the number of programs that each step compiled."""
    compiled = []
    for length in lengths:
        expected = work("cpu", length)
        before = torch.tpu.metrics().compiles
        actual = work("tpu", length)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
        assert actual.stride() == expected.stride()
        compiled.append(torch.tpu.metrics().compiles - before)
    return compiled


def numbers(*shape: int, device: str = "cpu") -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 7 % 23 - 11).float().reshape(shape).to(device)


class Block(nn.Module):
    """Attention and a feed-forward network, from elementary operators."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, 2, 8).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(16, -1)
        )
        mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        scores = (q @ k.transpose(2, 3) / 3 + mask).softmax(-1)
        x = x + (scores @ v).transpose(1, 2).reshape(batch, length, 16)
        return x + self.down(F.gelu(self.up(x)))


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_training_on_changing_lengths_compiles_once_for_each_bucket(mode: str) -> None:
    torch.manual_seed(0)
    models = {"cpu": Block()}
    models["tpu"] = deepcopy(models["cpu"]).to("tpu")

    def step(device: str, length: int) -> torch.Tensor:
        model = models[device]
        x = numbers(2, length, 16, device=device) / 10
        targets = (torch.arange(2 * length) % 16).to(device)
        loss = F.cross_entropy(model(x).flatten(0, 1), targets)
        model.zero_grad()
        loss.backward()
        # The read ends a round.
        assert loss.item() > 0
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    with torch.tpu.eager_mode(mode):
        compiled = stream(step)
        torch.tpu.wait_for_compiles()
    # The first four lengths have programs of their own, and fused mode combines these.
    assert compiled[6:8] == [0, 0]
    assert compiled[10] == 0
    assert torch.tpu.metrics().padded["sizes"] > 40
    assert not torch.tpu.metrics().exact


def test_a_growing_cache_compiles_once_for_each_bucket() -> None:
    caches = {device: numbers(1, 2, 4, 8, device=device) for device in ("cpu", "tpu")}

    def token(device: str, step: int) -> torch.Tensor:
        new = numbers(1, 2, 1, 8, device=device) * step
        caches[device] = torch.cat([caches[device], new], 2)
        result = F.scaled_dot_product_attention(new, caches[device], caches[device])[:, :, -1]
        assert result.sum().item() is not None
        return result

    compiled = stream(token, tuple(range(1, 40)))
    # Only a length above 32 needs new programs.
    late = [step for step, count in enumerate(compiled) if count and step > 15]
    assert set(late) <= {28, 29, 30}


WORK: dict[str, Callable[[str, int], torch.Tensor]] = {
    "reductions": lambda d, n: torch.stack(
        [f(numbers(3, n, device=d), 1).float() for f in (torch.sum, torch.mean, torch.std)]
        + [numbers(3, n, device=d).max(1).values, numbers(3, n, device=d).argmin(1).float()]
    ),
    "a reduction of all elements": lambda d, n: numbers(3, n, device=d).square().mean(),
    "a transposed view": lambda d, n: numbers(n, 3, device=d).t().cumsum(1),
    "a slice": lambda d, n: numbers(4, n + 2, device=d)[1:, 2:].exp() - 1,
    "a step": lambda d, n: numbers(2 * n, 4, device=d)[::2] * 2,
    "a column": lambda d, n: numbers(n, 4, device=d)[:, 2] + 1,
    "an expanded view": lambda d, n: numbers(n, device=d).expand(3, n) * numbers(3, n, device=d),
    "channels last": lambda d, n: (
        numbers(2, 3, n, n, device=d).to(memory_format=torch.channels_last).relu()
    ),
    "a product over the size": lambda d, n: numbers(3, n, device=d) @ numbers(n, 4, device=d),
    "creation": lambda d, n: torch.arange(2, n + 2, device=d) * torch.full((n,), 3, device=d),
    "positions": lambda d, n: torch.arange(n, device=d)[None] <= torch.arange(n, device=d)[:, None],
    "indices": lambda d, n: numbers(50, 4, device=d)[torch.arange(n, device=d) % 50],
    "a join": lambda d, n: torch.cat([numbers(n, 2, device=d), numbers(3, 2, device=d)]),
    "a join with an empty tensor": lambda d, n: torch.cat(
        [torch.empty(0, device=d), numbers(n, 2, device=d)]
    ),
    "a number": lambda d, n: numbers(n, device=d) * n + torch.tensor(0.5) * n,
    "a conversion": lambda d, n: numbers(n, device=d).to(torch.int32).double(),
    "padding": lambda d, n: F.pad(numbers(2, n, device=d), (1, 2), value=4.0),
    "a loss": lambda d, n: F.cross_entropy(
        numbers(n, 5, device=d), (torch.arange(n) % 5).to(d), ignore_index=2
    ),
    "convolution": lambda d, n: F.conv1d(numbers(1, 2, n, device=d), numbers(3, 2, 3, device=d)),
    "booleans": lambda d, n: numbers(n, device=d).gt(0).logical_not().any(),
}


@pytest.mark.parametrize("name", WORK)
def test_values_and_layouts_are_those_of_the_cpu(name: str) -> None:
    def work(device: str, length: int) -> torch.Tensor:
        result = WORK[name](device, length)
        result.sum().item()  # ends a round
        return result

    compiled = stream(work)
    assert compiled[7] == compiled[10] == 0, torch.tpu.metrics().exact


def _write_all(x: torch.Tensor, n: int) -> None:
    x.mul_(2).add_(n)


def _write_prefix(x: torch.Tensor, n: int) -> None:
    x[: n - 2].mul_(3)


def _write_slice(x: torch.Tensor, n: int) -> None:
    x[2:, 1:3] = numbers(n - 2, 2, device=str(x.device.type))


def _write_transposed(x: torch.Tensor, n: int) -> None:
    x.t()[1, 1:].copy_(x[: n - 1, 3])


def _write_indexed(x: torch.Tensor, n: int) -> None:
    index = (torch.arange(n - 3) + 2).to(x.device)
    x.index_add_(0, index, x[: n - 3].clone())


def _write_out(x: torch.Tensor, n: int) -> None:
    torch.add(x[: n - 1], x[1:], out=x[1:].clone())
    torch.mul(x[:-1], 2, out=x[1:]) if n < 0 else torch.neg(x, out=x)


def _write_filled(x: torch.Tensor, n: int) -> None:
    x[n // 2 :].fill_(n)
    x[: n // 2, 0].zero_()


@pytest.mark.parametrize(
    "write",
    [
        *(_write_all, _write_prefix, _write_slice, _write_transposed, _write_indexed, _write_out),
        _write_filled,
    ],
)
def test_writes_change_only_their_elements(write: Callable[[torch.Tensor, int], None]) -> None:
    def work(device: str, length: int) -> torch.Tensor:
        x = numbers(length, 4, device=device)
        y = x.view(-1)
        write(x, length)
        y.sum().item()
        return y * 1

    compiled = stream(work)
    assert compiled[7] == 0, torch.tpu.metrics().exact


def test_a_write_to_a_part_of_a_fixed_storage() -> None:
    caches = {device: numbers(2, 80, 4, device=device) for device in ("cpu", "tpu")}

    def work(device: str, length: int) -> torch.Tensor:
        caches[device][:, 2 : length + 2] = numbers(2, length, 4, device=device) * length
        caches[device][:, :length].add_(1)
        assert caches[device].sum().item() is not None
        return caches[device].clone()

    assert stream(work)[10] == 0


def test_random_numbers_are_those_of_a_program_for_the_exact_size() -> None:
    def draws(length: int) -> list[torch.Tensor]:
        torch.tpu.manual_seed(length)
        x = torch.ones(3, length, device="tpu")
        drawn = [F.dropout(x, 0.4), torch.rand(length, device="tpu"), x.clone().uniform_()]
        drawn[0].sum().item()
        return [each.cpu() for each in drawn]

    padded = [draws(length) for length in LENGTHS]
    assert torch.tpu.metrics().padded
    torch.tpu.set_size_buckets(False)
    _C.clear_programs()
    for length, expected in zip(LENGTHS, padded, strict=True):
        for one, other in zip(draws(length), expected, strict=True):
            torch.testing.assert_close(one, other)


def test_a_storage_that_is_lengthened_keeps_its_values_and_views() -> None:
    for length in (3, 4, 5, 9, 17, 20):
        x = numbers(length, 3, device="tpu")
        view = x[1:, 2]
        (x * 2).sum().item()
        assert torch.equal(x.cpu(), numbers(length, 3))
        assert torch.equal(view.cpu(), numbers(length, 3)[1:, 2])
        x[1:, 2].add_(1)
        assert torch.equal(view.cpu(), numbers(length, 3)[1:, 2] + 1)
    assert x.untyped_storage().nbytes() == 32 * 3 * 4
    assert x.shape == (20, 3)


def test_a_shared_buffer_is_not_replaced() -> None:
    """A storage that other code can see keeps its memory, so the call gets its own program."""
    for length in (3, 4, 5, 9, 17, 20, 24):
        x = numbers(length, 3, device="tpu")
        other = torch.utils.dlpack.to_dlpack(x) if length > 9 else None
        assert torch.equal((x * 2).cpu(), numbers(length, 3) * 2)
        del other
    assert any("buffer other code may use" in reason for reason in torch.tpu.metrics().exact)


def test_layers_of_a_model_get_their_own_programs() -> None:
    model = nn.Sequential(*(nn.Linear(width, width + 8) for width in range(8, 64, 8))).to("tpu")
    for _ in range(6):
        model(torch.ones(2, 8, device="tpu")).sum().item()
    assert not torch.tpu.metrics().padded


def test_a_loop_over_parameters_does_not_pad_them() -> None:
    model = nn.ModuleList(nn.Linear(width, width + 8) for width in range(8, 96, 8)).to("tpu")
    before = [p.untyped_storage().nbytes() for p in model.parameters()]
    for _ in range(2):
        for parameter in model.parameters():
            assert bool(torch.isfinite(parameter).all())
            parameter.sum().item()
    assert [p.untyped_storage().nbytes() for p in model.parameters()] == before


def test_one_batch_of_size_1_is_no_obstacle() -> None:
    def work(device: str, length: int) -> torch.Tensor:
        result = numbers(length, 4, device=device).t() * 2
        result.sum().item()
        return result.contiguous()

    assert stream(work, (9, 10, 11, 12, 13, 1, 40, 41, 42, 1, 43))[-3:] == [0, 0, 0]


@pytest.mark.parametrize("write", [torch.Tensor.zero_, torch.Tensor.normal_, torch.relu_])
def test_a_write_to_a_whole_storage_keeps_its_shape(
    write: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """A length that equals its bucket fills a padded storage, and one from the host."""
    for length in (9, 10, 11, 12, 13, 14, 16):
        made, sent = torch.ones(length, 4, device="tpu") * 2, torch.ones(length, 4).to("tpu")
        for x in (made, sent, made.view(-1), sent):
            write(x)
            y = torch.empty_like(x)
            torch.add(x, 1, out=y)
            torch.testing.assert_close(y.cpu(), x.cpu() + 1)
            x.sum().item()
        assert _C.natural_shape(sent) == tuple(_C.value(sent).shape)


def _doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t() * 3


def _increased(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_threads_may_read_a_tensor_of_a_new_length() -> None:
    for length in (*LENGTHS, *range(70, 90)):
        x = numbers(length, 4, device="tpu")
        expected = numbers(length, 4)
        with ThreadPoolExecutor(3) as threads:
            started = [threads.submit(work, x) for work in (_doubled, _transposed, _increased)]
            results = [each.result() for each in started]
        for result, wanted in zip(
            results, (expected * 2, expected.t() * 3, expected + 1), strict=True
        ):
            torch.testing.assert_close(result.cpu(), wanted)


def test_an_index_past_the_end_reads_the_last_element() -> None:
    for length in LENGTHS:
        x = numbers(length, 2, device="tpu")
        past = torch.tensor([0, length + 1], device="tpu")
        for picked in (x[past], x.index_select(0, past), x.gather(0, past[:, None].expand(2, 2))):
            assert torch.equal(picked.cpu(), numbers(length, 2)[[0, -1]]), length


def test_the_default_on_the_cpu_is_off() -> None:
    torch.tpu.set_size_buckets(None)
    assert not torch.tpu.get_size_buckets()
    for length in LENGTHS:
        (numbers(length, device="tpu") * 2).sum().item()
    assert not torch.tpu.metrics().padded


@pytest.mark.parametrize("text", ["yes", "2"])
def test_a_wrong_environment_variable_is_an_error(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    from torch_google.tpu.runtime import size_bucket_setting

    monkeypatch.setenv("TORCH_TPU_SIZE_BUCKETS", text)
    with pytest.raises(ValueError, match=f"TORCH_TPU_SIZE_BUCKETS={text}; use 1"):
        size_bucket_setting.choose()


def test_debug_mode_checks_values() -> None:
    table = numbers(8, 4, device="tpu")

    def picked(length: int, last: int) -> torch.Tensor:
        index = torch.cat([torch.zeros(length - 1, dtype=torch.int64), torch.tensor([last])])
        return table[index.to("tpu")]

    for length in LENGTHS:
        picked(length, 0).sum().item()
    assert torch.tpu.metrics().padded
    with (
        torch.tpu.eager_mode("debug"),
        pytest.raises(IndexError, match="index 9 is out of range for a size of 8"),
    ):
        picked(LENGTHS[-1], 9)


_PROGRAM = """
import torch
from torch_google.tpu import autoload
autoload()
torch.tpu.set_size_buckets(True)
weight = torch.ones(8, 8, device="tpu")
for length in (3, 4, 5, 9, 17, 20, 40):
    x = torch.ones(2, length, 8, device="tpu")
    (x.transpose(1, 2)[:, 1:].softmax(2).sum() + (x @ weight).relu().mean()).item()
done = torch.tpu.metrics()
print(done.compiles, done.padded["compile"])
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_TPU_COMPILE_CACHE": str(tmp_path / "cache"),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    counts = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert int(counts[0][0]) > 10
    assert int(counts[0][1]) > 5
    assert counts[1] == ["0", counts[0][1]]
