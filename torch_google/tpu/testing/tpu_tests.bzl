# SPDX-License-Identifier: Apache-2.0
"""Tests of the device: one target a room, a process a file, compiled fast."""

load("//tools/par:par.bzl", "par_tests")

# Modules that a test of the device imports sooner or later, and that start no thread. Imported
# once per shard, they take 3 s of each file's CPU time away.
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
    """par_tests on the started device. srcs, deps and the rest: as of par_tests.

    Programs are compiled without optimisation (see quick_compiler.py), by conftest.py.
    """
    par_tests(
        name = name,
        srcs = srcs,
        warm_imports = _WARM_IMPORTS,
        deps = deps + [
            "//torch_google/tpu/testing:support",
            # Named here as well, for the tag `budget`.
            "@pypi//hypothesis",
        ],
        **kwargs
    )
