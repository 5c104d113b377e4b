# SPDX-License-Identifier: Apache-2.0
"""Tests of the device: one target per package, one process per file, fast compilation."""

load("//tools/par:par.bzl", "par_tests")

# Modules that most tests import and that start no threads. Importing them once per test shard saves
# 4 s of CPU time per file. The torch_google modules are those that are imported when the device is
# initialized.
_WARM_IMPORTS = [
    "hypothesis",
    "jax",
    "torch._dynamo",
    "torch._meta_registrations",
    "torch.fx.experimental.symbolic_shapes",
    "torch_google.tpu.eager.copy_kernels",
    "torch_google.tpu.eager.recorded_operators",
    "torch_google.tpu.fused.fusion",
    "torch_google.tpu.lowerings.families",
    "torch_google.tpu.registration",
    "torch_google.tpu.torch_hooks.compile_adapter",
    "torch_google.tpu.torch_hooks.fake_tensors",
    "torch_google.tpu.torch_hooks.optimizer_steps",
]

# Modules that the first call to torch.compile imports. The import takes 2 s of CPU time per test
# file.
_COMPILER_IMPORTS = ["torch._inductor.compile_fx"]

def tpu_tests(name, srcs, deps = [], compiles = False, **kwargs):
    """Declares par_tests that run with the device initialized. Takes the arguments of par_tests.

    conftest.py makes XLA compile without optimization (quick_compiler.py).

    Args:
      name: name of the target.
      srcs: as in par_tests.
      deps: as in par_tests.
      compiles: whether two or more test files call torch.compile. If so, its modules are imported
        once per shard.
      **kwargs: additional arguments of par_tests.
    """
    par_tests(
        name = name,
        srcs = srcs,
        warm_imports = _WARM_IMPORTS + (_COMPILER_IMPORTS if compiles else []),
        deps = deps + [
            "//torch_google/tpu/testing:support",
            # par_tests adds the tag `budget` only if hypothesis is a direct dependency.
            "@pypi//hypothesis",
        ],
        **kwargs
    )
