# SPDX-License-Identifier: Apache-2.0
"""Tests the whole device: training, threads, random numbers, streams, modes and errors."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode


def losses(device: str, steps: int) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(8, 16, generator=generator).to(device)
    targets = torch.randn(8, 4, generator=generator).to(device)
    values = []
    for step in range(steps):
        if step == 2:
            torch.tpu.reset_metrics()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def test_training_is_as_on_the_cpu_and_misses_no_more() -> None:
    expected = losses("cpu", 12)
    assert losses("tpu", 12) == pytest.approx(expected, abs=1e-4)
    done = torch.tpu.metrics()
    assert (done.misses, done.compiles, done.fallbacks) == (0, 0, {})
    assert done.hits == done.operators > 0


def test_numbers_never_recompile() -> None:
    x = torch.ones(3, device="tpu")
    for number in (1.5, 2.5, 3.5):
        x = x * number + number
        x.addcmul_(x, x, value=number).fill_(number)
    torch.tpu.reset_metrics()
    for number in (4.5, 5.5):
        x = x * number + number
        x.addcmul_(x, x, value=number).fill_(number)
    assert torch.tpu.metrics().misses == 0
    assert x.tolist() == [5.5] * 3


def test_a_tensor_of_the_cpu_without_dimensions_is_a_number() -> None:
    x = torch.ones(2, dtype=torch.float32, device="tpu")
    assert (x * torch.tensor(3.0, dtype=torch.float64)).tolist() == [3.0, 3.0]
    assert (x * torch.tensor(2)).dtype == torch.float32
    assert (x + True).tolist() == [2.0, 2.0]
    assert (x * torch.tensor(True)).tolist() == [1.0, 1.0]
    assert (x + torch.tensor(1 + 2j)).cpu().tolist() == [2 + 2j, 2 + 2j]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + torch.ones(2)


def test_eight_threads() -> None:
    totals: dict[int, float] = {}

    def work(number: int) -> None:
        x = torch.full((4, 4), float(number)).to("tpu")
        total = torch.zeros(4, 4).to("tpu")
        for _ in range(50):
            total.add_(x * 2)
            x.t().mul_(1.0)
        totals[number] = total.sum().item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == {n: 1600.0 * n for n in range(8)}


def test_random_numbers_repeat_with_the_seed_and_the_state() -> None:
    torch.manual_seed(3)
    first = torch.empty(4, device="tpu").uniform_().tolist()
    state = torch.tpu.get_rng_state()
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    second = torch.empty(4, device="tpu").uniform_().tolist()
    torch.tpu.set_rng_state(state)
    assert torch.empty(4, device="tpu").uniform_().tolist() == second != first
    torch.tpu.manual_seed_all(3)
    assert torch.empty(4, device="tpu").uniform_().tolist() == first
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.empty(4, device="tpu").uniform_()
    assert torch.empty(4, device="tpu").uniform_().tolist() == second


def test_a_generator_of_its_own() -> None:
    generator = torch.Generator(device="tpu").manual_seed(5)
    before = torch.tpu.get_rng_state()
    one = torch.empty(3, device="tpu").normal_(generator=generator)
    generator.manual_seed(5)
    again = torch.empty(3, device="tpu").normal_(generator=generator)
    torch.testing.assert_close(again.cpu(), one.cpu())
    assert torch.equal(torch.tpu.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="expected a generator of tpu, but found one of cpu"):
        torch.empty(3, device="tpu").normal_(generator=torch.Generator())


def test_memory_is_counted() -> None:
    import gc

    gc.collect()
    before = torch.tpu.memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    x = torch.empty(1000, device="tpu")
    assert torch.tpu.memory_allocated() == before + 4000
    x.resize_(500)
    del x
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() == before + 4000
    assert torch.tpu.memory_stats()["allocated_bytes.all.current"] == before


def test_many_steps_hold_no_memory() -> None:
    x = torch.ones(8, device="tpu")
    x = x * 1.5
    before = torch.tpu.memory_allocated()
    for _ in range(2000):
        x = x * 1.0
    assert torch.tpu.memory_allocated() == before


def test_an_operator_without_a_lowering_names_itself_and_the_way_out() -> None:
    library = torch.library.Library("tpu_runtime_test", "FRAGMENT")
    library.define("reversed(Tensor x) -> Tensor")
    library.define("reverse_(Tensor(a!) x) -> Tensor(a!)")
    library.impl("reversed", lambda x: x.flip(0), "CPU")
    library.impl("reverse_", lambda x: x.copy_(x.flip(0)), "CPU")
    ops = torch.ops.tpu_runtime_test
    x = torch.tensor([3.0, 1.0, 2.0]).to("tpu")
    with pytest.raises(NotImplementedError, match=r"reversed \(float32\).*cpu_fallback\(\)"):
        ops.reversed(x)
    with torch.tpu.cpu_fallback():
        assert ops.reversed(x).tolist() == [2.0, 1.0, 3.0]
        assert ops.reverse_(x) is x
    assert x.tolist() == [2.0, 1.0, 3.0]
    assert torch.tpu.metrics().fallbacks == {
        "tpu_runtime_test::reversed": 1,
        "tpu_runtime_test::reverse_": 1,
    }
    with pytest.raises(NotImplementedError):
        ops.reversed(x)


def test_debug_names_the_line() -> None:
    assert torch.tpu.get_eager_mode() == "strict"
    x = torch.ones(3, device="tpu")
    with torch.tpu.eager_mode("debug"):
        assert torch.tpu.get_eager_mode() == "debug"
        with pytest.raises(ValueError, match="no eager mode 'fast'"), torch.tpu.eager_mode("fast"):
            pass
        assert (x + 1).tolist() == [2.0] * 3
    assert torch.tpu.get_eager_mode() == "strict"
    from torch_google.tpu.eager.debug import debug

    def broken() -> None:
        raise ValueError("no such thing")

    with pytest.raises(RuntimeError, match=r"runtime_test.py:\d+: aten::x: no such thing"):
        debug("aten::x", broken, ())


def test_memory_that_ran_out_is_an_error_of_torch() -> None:
    from torch_google.tpu.runtime.errors import explain

    with pytest.raises(torch.OutOfMemoryError, match=r"aten::mm ran out of memory.*1073741824"):
        explain("aten::mm", RuntimeError("RESOURCE_EXHAUSTED: Out of memory: 1073741824 bytes"))


def test_a_failed_operator_leaves_its_tensors_as_they_were() -> None:
    x, y = torch.ones(3, device="tpu"), torch.ones(4, device="tpu")
    with pytest.raises(RuntimeError, match="must match"):
        x.add_(y)
    assert (x + x).tolist() == [2.0] * 3


def test_shapes_that_depend_on_values() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to("tpu")
    assert x.nonzero().tolist() == [[0, 1], [1, 0]]
    assert torch.tpu.metrics().host_shapes == 1
    positions = torch.empty(0, dtype=torch.int64, device="tpu")
    assert torch.nonzero(x, out=positions) is positions
    assert positions.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(RuntimeError, match="out"):  # the full text depends on torch's release
        torch.nonzero(x, out=torch.empty(0, device="tpu"))


def test_copies() -> None:
    source = torch.arange(6).reshape(2, 3)
    for dtype in (
        torch.bool,
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.uint8,
        torch.complex64,
        torch.int16,
        torch.float8_e4m3fn,
    ):
        assert torch.equal(
            source.to(dtype).to("tpu").cpu().to(torch.complex64),
            source.to(dtype).to(torch.complex64),
        )
    x = source.to("tpu")
    source.zero_()
    assert x.sum().item() == 15
    assert x.t()[1].tolist() == [1, 4]
    host = x.cpu()
    x.zero_()
    assert host.sum().item() == 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.cpu().numpy()


def test_lazy_signs_cross_to_and_from_the_host() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    y = x.to("tpu").conj()
    assert torch.equal(torch.empty_like(x).copy_(y), x.conj())
    assert torch.equal(torch.empty(2).copy_(y.imag), x.conj().imag)
    y.copy_(torch.tensor([5j, 6j]))
    assert torch.empty_like(x).copy_(y).tolist() == [5j, 6j]


def test_masks_take_elements() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to("tpu")
    mask = torch.tensor([True, False]).to("tpu")
    assert x[mask].tolist() == [[0.0, 1.0]]
    assert x[:, mask].tolist() == [[0.0], [2.0]]
    with pytest.raises(IndexError, match="shape of the mask"):
        x[torch.tensor([True]).to("tpu")]


def test_autocast_computes_products_in_bfloat16() -> None:
    x = torch.ones(2, 2, device="tpu")
    with torch.autocast("tpu"):
        assert (x @ x).dtype == torch.bfloat16
        assert (x + x).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_batch_norm_updates_its_statistics() -> None:
    results = []
    for device in ("cpu", "tpu"):
        norm = nn.BatchNorm1d(3).to(device)
        result = norm(torch.arange(12.0).reshape(4, 3).to(device))
        results.append([result.cpu(), norm.running_mean.cpu(), norm.running_var.cpu()])
    torch.testing.assert_close(results[1], results[0])


def test_the_state_of_a_generator_has_bytes_beside_fake_tensors() -> None:
    torch.tpu.manual_seed(5)
    expected = torch.tpu.get_rng_state()
    with FakeTensorMode():
        state = torch.tpu.get_rng_state()
    assert torch.equal(state, expected)
