# SPDX-License-Identifier: Apache-2.0
"""Tests lazy registration, platforms, several devices and forks, each in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_google.tpu.release import V2_6


def run(program: str, **environment: str) -> str:
    """Run a program and return its output, or the last line of its stderr if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout if done.returncode == 0 else done.stderr.strip().splitlines()[-1]).strip()


_LOAD = "import sys, torch, torch_google.tpu; torch_google.tpu.autoload(); "


def test_registering_is_quiet_and_twice_is_once() -> None:
    program = (
        "torch_google.tpu.autoload();"
        "torch.ones(2, requires_grad=True).sum().backward();"
        "torch.manual_seed(1);"
        "print('jax' in sys.modules, torch.tpu.is_initialized(), torch.tpu.is_available(),"
        " torch.accelerator.current_accelerator())"
    )
    assert run(_LOAD + program) == "False False True tpu"


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_a_start_looks_for_no_garbage_and_leaves_it_to_who_does(before: str) -> None:
    program = f"""
import gc
gc.collect()
gc.{before}()
was = gc.isenabled()
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info))
torch.tpu.init()
print(len(seen), gc.isenabled() == was, gc.get_freeze_count(), len(gc.get_objects(0)) < 1000)
"""
    assert run(_LOAD + program) == "0 True 0 True"


@pytest.mark.full
def test_what_is_frozen_stays_so() -> None:
    program = "import gc; gc.freeze(); torch.tpu.init(); print(gc.get_freeze_count() > 1000)"
    assert run(_LOAD + program) == "True"


def test_several_devices() -> None:
    program = """
x = torch.ones(3, device="tpu:1")
y = x.to("tpu:2")
print(torch.tpu.device_count(), x.device, y.device, y.tolist())
with torch.tpu.device(3):
    print(torch.empty(1, device="tpu").device, torch.tpu.current_device())
x[1:].copy_(torch.zeros(2, device="tpu:3"))
print(x.tolist(), torch.tpu.memory_allocated(1))
w = torch.ones(2, device="tpu:3", requires_grad=True)
(w.to("tpu:2") * 2.0).sum().backward()
print(w.grad.device, w.grad.tolist())
try:
    x + y
except RuntimeError as error:
    print(error)
try:
    torch.empty(1, device="tpu:9")
except RuntimeError as error:
    print(error)
"""
    lowerings = """
import jax.numpy as jnp
from torch_google.tpu.lowerings import lowering, names
for name, function in {
    "mul.Tensor": jnp.multiply,
    "copy": lambda a, b, non_blocking=False: jnp.broadcast_to(b, a.shape).astype(a.dtype),
    "fill.Scalar": jnp.full_like,
    "zero": jnp.zeros_like,
    "sum": lambda a, dtype=None: a.sum(),
}.items():
    if f"aten::{name}" not in names():
        lowering(f"aten::{name}")(function)
"""
    printed = run(_LOAD + lowerings + program, TORCH_TPU_CPU_DEVICES="4").splitlines()
    assert printed[:5] == [
        "4 tpu:1 tpu:2 [1.0, 1.0, 1.0]",
        "tpu:3 3",
        "[1.0, 0.0, 0.0] 12",
        "tpu:3 [2.0, 2.0]",
        "aten::add.Tensor: Expected all tensors to be on the same device, but found tpu:1 and "
        "tpu:2. Move one with .to()",
    ]
    assert printed[5].startswith("tpu: no device tpu:9; this process has 4.")


_ENGINE_FIRST = """
torch.ones(1, requires_grad=True).sum().backward()
torch.ones(2, device="tpu:1", requires_grad=True).sum().backward()
print(torch.tpu.device_count())
"""


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JAX_NUM_CPU_DEVICES", "2"),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=2"),
        ("XLA_FLAGS", "flags"),
        ("TORCH_TPU_CPU_DEVICES", "2"),
    ],
)
def test_autograd_knows_how_many_devices_will_start(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_TPU_CPU_DEVICES", raising=False)
    if value == "flags":
        value = str(tmp_path / value)
        Path(value).write_text(
            "--xla_force_host_platform_device_count=3\n--xla_force_host_platform_device_count='2'\n"
        )
    settings = {"TORCH_TPU_PLATFORM": "cpu", variable: value}
    assert run(_LOAD + _ENGINE_FIRST, **settings) == "2"


@pytest.mark.full
def test_jax_was_told_how_many_devices_before_torch_was_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCH_TPU_CPU_DEVICES", raising=False)
    first = "import jax; jax.config.update('jax_num_cpu_devices', 2); "
    assert run(first + _LOAD + _ENGINE_FIRST, TORCH_TPU_PLATFORM="cpu") == "2"


@pytest.mark.full
def test_autograd_knows_of_all_devices_that_were_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_TPU_CPU_DEVICES", raising=False)
    program = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
print(torch.tpu.device_count(), torch.tpu.is_initialized())
"""
    output = run(_LOAD + program + _ENGINE_FIRST, TORCH_TPU_PLATFORM="cpu")
    assert output.splitlines() == ["2 True", "2"]


@pytest.mark.full
def test_shapes_that_depend_on_values_of_the_second_device() -> None:
    program = """
mask = torch.tensor([True, False, True]).to("tpu:1")
for x in (torch.tensor(2.0), torch.arange(3.0).to("tpu:1")):
    selected = torch.masked_select(x, mask)
    print(selected.device, selected.tolist(), (selected + selected).tolist())
print(mask.nonzero().device)
"""
    assert run(_LOAD + program, TORCH_TPU_PLATFORM="cpu", TORCH_TPU_CPU_DEVICES="2").split(
        "\n"
    ) == [
        "tpu:1 [2.0, 2.0] [4.0, 4.0]",
        "tpu:1 [0.0, 2.0] [0.0, 4.0]",
        "tpu:1",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TORCH_TPU_PLATFORM", "gpu", "TORCH_TPU_PLATFORM=gpu; use one of tpu, cuda, cpu"),
        ("TORCH_TPU_PLATFORM", "tpu", "TORCH_TPU_PLATFORM=tpu: JAX cannot start it"),
        ("TORCH_TPU_CPU_DEVICES", "none", "TORCH_TPU_CPU_DEVICES=none; use a number"),
    ],
)
def test_a_platform_that_cannot_be(variable: str, value: str, message: str) -> None:
    assert message in run(_LOAD + "torch.empty(1, device='tpu')", **{variable: value})


@pytest.fixture
def broken_plugin(tmp_path: Path) -> str:
    """Return the path of a PJRT plugin for GPUs that cannot start, as on a machine without one."""
    package = tmp_path / "jax_plugins/broken"
    package.mkdir(parents=True)
    lines = "def initialize():", "    raise RuntimeError('Unable to load CUDA.\\nIs it installed?')"
    (package / "__init__.py").write_text("\n".join(lines))
    return str(tmp_path)


def _with_plugin(path: str, platform: str) -> subprocess.CompletedProcess[str]:
    program = f"sys.path.append({path!r}); print(torch.ones(1, device='tpu'))"
    return subprocess.run(
        [sys.executable, "-c", _LOAD + program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TORCH_TPU_PLATFORM": platform,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_plugin_that_cannot_start_is_one_line(broken_plugin: str) -> None:
    done = _with_plugin(broken_plugin, "")
    assert "device='tpu:0'" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "Unable to load CUDA" in line]
    assert line.endswith("jax_plugins.broken.initialize(): Unable to load CUDA. Is it installed?")
    assert "Traceback" not in done.stderr


def test_the_error_of_a_platform_names_the_error_of_its_plugin(broken_plugin: str) -> None:
    done = _with_plugin(broken_plugin, "cuda")
    assert done.returncode
    error = done.stderr.splitlines()[-1]
    assert "A plugin failed (Unable to load CUDA. Is it installed?): repair it" in error
    assert "Install its PJRT plugin" not in error


_FORK = """
import os
import signal
import warnings
warnings.simplefilter("ignore")
from torch_google.tpu import to_jax
x = torch.ones(2, device="tpu", requires_grad=True)
y = (x * 2).sum()
event, stream = torch.Event("tpu"), torch.tpu.Stream()
event.record()
plain = x.detach()
def advice(use):
    read, write = os.pipe()
    if os.fork() == 0:
        signal.alarm(20)
        try:
            use()
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.wait()
    os.close(write)
    return os.read(read, 1000).decode()
uses = {
    "new": lambda: torch.empty(1, device="tpu"),
    "operator": lambda: x + 1,
    "write": lambda: plain.add_(1),
    "item": y.item,
    "copy": x.cpu,
    "move": lambda: torch.ones(1).to("tpu"),
    "print": lambda: repr(x),
    "backward": y.backward,
    "resize": lambda: torch.Tensor.resize_(plain, 30),
    "array": lambda: to_jax(plain),
    "dlpack": lambda: torch.from_dlpack(plain),
    "synchronize": torch.tpu.synchronize,
    "accelerator": torch.accelerator.synchronize,
    "query": event.query,
    "wait": event.synchronize,
    "record": event.record,
    "stream": stream.synchronize,
    "new stream": torch.tpu.Stream,
    "memory": torch.tpu.mem_get_info,
    "init": torch.tpu.init,
    "pickle": lambda: __import__("pickle").dumps(x),
}
for name, use in uses.items():
    said = advice(use)
    if not ("forked after the device had started" in said and "'spawn' start method" in said):
        print(name, "->", said)
print((x + 1).tolist(), advice(lambda: torch.manual_seed(3)))  # a data loader's workers set it
"""


def test_a_child_of_a_fork_is_refused_with_advice() -> None:
    assert run(_LOAD + _FORK) == "[2.0, 2.0] nothing"


def test_a_fork_before_the_start_is_fine() -> None:
    program = """
import os
pid = os.fork()
print(torch.empty(2, device="tpu").shape[0] if pid == 0 else "", end="")
if pid:
    os.wait()
"""
    assert run(_LOAD + program) == "2"


@pytest.mark.full
def test_the_exit_waits_for_autograds_threads() -> None:
    program = """
import atexit, torch, torch_google.tpu
from torch_google.tpu import registration
live = [True, True, False]
atexit.register(lambda: print(live))  # runs after the device's own handler
torch_google.tpu.autoload()
torch.ones(2, device="tpu", requires_grad=True).sum().backward()
print(registration._autograd_lives())
registration._autograd_lives = lambda: live.pop(0)
"""
    assert run(program) == "True\n[]"


@pytest.mark.full
def test_a_start_that_is_interrupted_begins_anew() -> None:
    """Raise KeyboardInterrupt before and after each step of the device's initialization."""
    program = """
import warnings
warnings.filterwarnings("error", message="(?s).*verrid")
from torch_google.tpu.compile import device_adapter
from torch_google.tpu.composites import composite_table
from torch_google.tpu.torch_hooks import fake_tensors, optimizer_steps
from torch_google.tpu.fused import fusion
from torch_google.tpu.eager import copy_kernels as kernels, recorded_operators
from torch_google.tpu.runtime import memory

def interrupt(owner, name):
    whole, moments = getattr(owner, name), ["before", "behind"]
    def interrupted(*args, **kwargs):
        moment = moments.pop(0) if moments else "never"
        if moment == "before":
            raise KeyboardInterrupt
        result = whole(*args, **kwargs)
        if moment == "behind":
            raise KeyboardInterrupt
        return result
    setattr(owner, name, interrupted)

STEPS = [
    (device_adapter, "register_adapter"),
    (composite_table._ATEN, "impl"),
    (fake_tensors, "_laid_out"),
    (fusion, "register"),
    (kernels._library, "impl"),
    (memory, "limit_all"),
    (recorded_operators, "record"),
    (optimizer_steps, "install"),
]
for owner, name in STEPS:
    interrupt(owner, name)
count = 0
while not torch.tpu.is_initialized():
    try:
        torch.ones(2, device="tpu")
    except KeyboardInterrupt:
        count += 1
print(count, torch.tpu.device_count())
x = torch.ones(2, device="tpu", requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(*[x.view(1, 1, 1, 2)] * 3).sum().backward()
print(x.grad.tolist(), x.cpu().tolist())
"""
    printed = run(_LOAD + program, TORCH_TPU_CPU_DEVICES="2").splitlines()
    assert printed == ["16 2", "[1.0, 1.0] [1.0, 1.0]"]


@pytest.mark.full
def test_a_module_of_lowerings_whose_import_was_interrupted_is_imported_anew() -> None:
    program = """
from torch_google.tpu.lowerings import table
found, left = table.lowering, [10]
def interrupted(*names, **options):
    if not left[0]:
        table.lowering = found
        raise KeyboardInterrupt
    left[0] -= 1
    return found(*names, **options)
table.lowering = interrupted
try:
    import torch_google.tpu.lowerings.creation
except KeyboardInterrupt:
    print("interrupted")
print(torch.arange(0, 1, 0.5, device="tpu").tolist())
"""
    assert run(_LOAD + program).splitlines() == ["interrupted", "[0.0, 0.5]"]


@pytest.mark.parametrize(
    ("select", "index"),
    [
        ("torch.tpu.set_device", 0),
        ("torch.accelerator.set_device_index", 0),
        ("torch.accelerator.set_device_index", 2),
    ],
)
def test_a_device_mesh_keeps_a_device_that_was_selected_before_the_start(
    select: str, index: int
) -> None:
    program = (
        f"{select}({index});"
        "quiet = 'jax' not in sys.modules;"
        "import torch.distributed as dist;"
        "dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1);"
        "dist.device_mesh.init_device_mesh('tpu', (1,));"
        "print(quiet, torch.tpu.current_device())"
    )
    environment = {"TORCH_TPU_CPU_DEVICES": "3", "LOCAL_RANK": "1"}
    # In v2.6, torch initializes the backend when a device is selected.
    assert run(_LOAD + program, **environment) == f"{not V2_6} {index}"


_SEED_GENERATORS = """
import random, numpy
from torch_google.tpu.testing import quick_compiler
quick_compiler.use()
random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
def generator_states():
    key, position = numpy.random.get_state()[1:3]
    return random.getstate(), key.tolist(), position, torch.get_rng_state().tolist()
before = generator_states()
"""


@pytest.mark.parametrize(
    "use",
    [
        "torch.ones(3, device='tpu').add(1).tolist()",
        "torch.tpu.set_eager_mode('fused'); (torch.ones(3, device='tpu') * 2 + 1).tolist()",
        "torch.compile(lambda x: x.sin() + 1)(torch.ones(3, device='tpu')).tolist()",
        "torch_google.tpu.custom_kernel",
        "from torch_google.tpu.estimate import estimate",
        "torch.compile(lambda x: x + 1, backend='tpu')(torch.ones(2))",
        "import torch_google.tpu.kernels",
        "import torch_google.tpu.spmd",
    ],
)
def test_the_first_use_preserves_global_random_states(use: str) -> None:
    assert run(f"{_LOAD}{_SEED_GENERATORS}{use}\nprint(generator_states() == before)") == "True"
