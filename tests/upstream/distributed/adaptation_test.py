# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.upstream.distributed import adaptation

_CASES = [
    # (source, adapted for tpu, adapted for the CPU)
    ('init_device_mesh("cuda", (4,))', 'init_device_mesh("tpu", (4,))', 'init_device_mesh("cpu", (4,))'),
    ('torch.device(f"cuda:{self.rank}")', 'torch.device(f"tpu:{self.rank}")', 'torch.device(f"cpu")'),
    ('"rank:0/cuda:0"', '"rank:0/tpu:0"', '"rank:0/cpu"'),
    (
        'torch.device("cuda", torch.cuda.current_device())',
        'torch.device("tpu", torch.tpu.current_device())',
        'torch.device("cpu")',
    ),
    ("copy.deepcopy(model).cuda()", 'copy.deepcopy(model).to("tpu")', "copy.deepcopy(model).cpu()"),
    ("x.cuda(dist.get_rank())", 'x.to(torch.device("tpu", dist.get_rank()))', "x.cpu()"),
    ("torch.cuda.Stream()", "torch.tpu.Stream()", "torch.cpu.Stream()"),
    ("torch.cuda.manual_seed(0)", "torch.tpu.manual_seed(0)", "torch.manual_seed(0)"),
    ("min(4, torch.cuda.device_count())", "min(4, 8)", "min(4, 8)"),
    ('"cpu:gloo,cuda:nccl"', '"cpu:gloo,tpu:tpu"', '"gloo"'),
    ('return "nccl"', 'return "cpu:gloo,tpu:tpu"', 'return "gloo"'),
    ("skipIf(not TEST_MULTIGPU, 'x')", "skipIf(not True, 'x')", "skipIf(not True, 'x')"),
    ("replicate(m, device_ids=[self.rank])", "replicate(m, device_ids=[self.rank])", "replicate(m)"),
    (
        "GradScaler(init_scale=2.0)",
        'GradScaler("tpu", init_scale=2.0)',
        'GradScaler("cpu", init_scale=2.0)',
    ),
    ('DEVICE_TYPE = "cpu"\n', 'DEVICE_TYPE = "tpu"\n', 'DEVICE_TYPE = "cpu"\n'),
    ('{xfail("linalg.det"), xfail("linalg.det", "singular"),}', *2 * ('{xfail("linalg.det"), }',)),
    ("ITER_TIME = 10\n", *2 * ("ITER_TIME = 2\n",)),
    # torch.backends.cuda, and names that merely contain "cuda", stay unchanged.
    ("torch.backends.cuda.matmul", "torch.backends.cuda.matmul", "torch.backends.cuda.matmul"),
    ("from common_cuda import TEST_CUDA", *2 * ("from common_cuda import TEST_CUDA",)),
]  # fmt: skip


@pytest.mark.parametrize(("source", "tpu", "cpu"), _CASES)
def test_names_of_devices_are_rewritten(source: str, tpu: str, cpu: str) -> None:
    assert adaptation.adapt(source, "tpu") == tpu
    assert adaptation.adapt(source, "cpu") == cpu


def test_only_modules_at_the_paths_are_adapted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("adapted_module", "other_module"):
        (tmp_path / f"{name}.py").write_text('DEVICE = "cuda"\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    adaptation.install("tpu", [tmp_path / "adapted_module.py"])
    assert importlib.import_module("adapted_module").DEVICE == "tpu"
    assert importlib.import_module("other_module").DEVICE == "cuda"
    assert not [*(tmp_path / "__pycache__").glob("adapted_module*")]
