# SPDX-License-Identifier: Apache-2.0
"""Tests of the device: one target per room, one process per file, fast compilation."""

load("//tools/par:par.bzl", "par_tests")

# Modules that most tests import and that start no threads. Importing them once per shard saves 3 s
# of CPU time per file.
_WARM_IMPORTS = [
    "hypothesis",
    "jax",
    "torch._dynamo",
    "torch._meta_registrations",
    "torch.fx.experimental.symbolic_shapes",
    "torch_google.tpu.lowerings",
    "torch_google.tpu.lowerings.meta_kernels",
]

def tpu_tests(name, srcs, deps = [], **kwargs):
    """Declares par_tests that run with the device started. Takes the arguments of par_tests.

    conftest.py makes XLA compile without optimisation (quick_compiler.py).
    """
    par_tests(
        name = name,
        srcs = srcs,
        warm_imports = _WARM_IMPORTS,
        deps = deps + [
            "//torch_google/tpu/testing:support",
            # List this here, because par_tests adds the tag `budget` only for a direct dependency.
            "@pypi//hypothesis",
        ],
        **kwargs
    )
