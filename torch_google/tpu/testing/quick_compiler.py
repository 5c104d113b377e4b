# SPDX-License-Identifier: Apache-2.0
"""XLA flags for tests, which make programs compile faster but run more slowly."""

from __future__ import annotations

import os

XLA_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false "
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_use_fusion_emitters=false"
)
"""Flags for programs that run only a few times, so that compilation dominates their cost."""


def use() -> None:
    """Set the flags for this process and its children, unless `XLA_FLAGS` is already set.

    XLA reads the flags when JAX creates its first client, so call this before the device is
    initialized.
    """
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
