# SPDX-License-Identifier: Apache-2.0

import subprocess
import sys

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from torch_google.tpu.release import V2_6


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def test_tensors_of_the_device_choose_the_backend() -> None:
    function = torch.compile(lambda x: torch.relu(x) * 2)
    assert function(torch.tensor([-1.0, 2.0], device="tpu")).tolist() == [0.0, 4.0]
    assert torch.tpu.metrics().graphs == {"compile": 1, "call": 1}


def test_tensors_of_the_cpu_stay_with_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.compile_fx as inductor

    graphs = []

    def compile_fx(graph: torch.fx.GraphModule, _: object, **__: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    monkeypatch.setattr(inductor, "compile_fx", compile_fx)
    assert torch.compile(lambda x: x + 1)(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert len(graphs) == 1
    assert torch.tpu.metrics().graphs == {}


def test_the_backend_has_a_name_for_dynamo() -> None:
    function = torch.compile(lambda x: x + 1, backend="tpu")
    assert function(torch.zeros(2, device="tpu")).tolist() == [1.0, 1.0]
    assert torch.tpu.metrics().graphs["call"] == 1


def test_other_backends_are_left_alone() -> None:
    counter = CompileCounter()
    function = torch.compile(lambda x: x + 1, backend=counter)
    assert function(torch.zeros(2, device="tpu")).tolist() == [1.0, 1.0]
    assert counter.frame_count == 1
    assert torch.tpu.metrics().graphs == {}


def test_options_of_the_backend_without_its_name() -> None:
    function = torch.compile(lambda x: x.add_(1), options={"donate": False})
    assert function(torch.zeros(2, device="tpu")).tolist() == [1.0, 1.0]
    with pytest.raises(Exception, match="Unexpected optimization option donate"):
        function(torch.zeros(2))


def test_options_of_nobody_are_refused_at_once() -> None:
    with pytest.raises(RuntimeError, match="Unexpected optimization option fastest"):
        torch.compile(lambda x: x, options={"fastest": True})


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes(mode: str) -> None:
    function = torch.compile(lambda x: x + 1, mode=mode)
    assert function(torch.zeros(2, device="tpu")).tolist() == [1.0, 1.0]


@pytest.mark.full
def test_nothing_is_loaded_before_the_first_compilation() -> None:
    code = (
        "import sys, torch, torch_google.tpu as tpu; tpu.autoload(); "
        "assert not {'jax', 'torch._dynamo', 'torch_google.tpu.compile'} & set(sys.modules); "
        "f = torch.compile(lambda x: x + 1, backend='tpu'); "
        "assert 'jax' not in sys.modules; "
        "print(f(torch.zeros(2, device='tpu')).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


@pytest.mark.skipif(V2_6, reason="v2.6's Dynamo cannot trace torch.accelerator")
def test_the_current_stream_of_a_compiled_function() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Stream, int]:
        return x + 1, torch.tpu.current_stream(), torch.tpu.current_device()

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    x = torch.zeros(2, device="tpu")
    assert compiled(x)[1:] == (torch.tpu.current_stream(), 0)
    with torch.tpu.stream(torch.tpu.Stream()) as stream:
        assert compiled(x)[1] == stream


@pytest.mark.skipif(V2_6, reason="v2.6's Dynamo cannot trace torch.accelerator")
def test_the_device_module_in_a_graph() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int, bool]:
        module = torch.get_device_module(x.device)
        return x + 1, module.current_device(), torch.get_device_module().is_available()

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(2, device="tpu"))[1:] == (0, True)


def test_what_runs_within_an_operator_is_not_traced() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x.nonzero().float().sum() + x.cumsum(0)

    x = torch.tensor([0.0, 1.0, 2.0])
    torch.testing.assert_close(torch.compile(function)(x.to("tpu")).cpu(), function(x))
