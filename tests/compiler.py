# SPDX-License-Identifier: Apache-2.0
"""How tests that go through torch's tables have programs compiled."""

from __future__ import annotations

XLA_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false "
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_use_fusion_emitters=false"
)
"""For programs that run once or a few times: what makes them faster only costs time."""
