# SPDX-License-Identifier: Apache-2.0
"""Flags for child processes."""

from __future__ import annotations

from absl import flags

FLAGS = flags.FLAGS

# The first method is the default. spawn starts a new program with the current environment, which
# inherits no locks from other threads; torch, OpenMP and JAX all start threads. forkserver is as
# safe, but its children get the environment that the server started with, which surprises users.
# fork is the fastest, but safe only while the program has no other threads.
START_METHODS = ("spawn", "forkserver", "fork")


def define_flags() -> None:
    """Define `--multiprocessing_start_method`. Idempotent; call it before flags are parsed."""
    if "multiprocessing_start_method" not in FLAGS:
        flags.DEFINE_enum(
            "multiprocessing_start_method",
            START_METHODS[0],
            START_METHODS,
            "How multiprocessing, torch.multiprocessing and DataLoader start processes by default: "
            "as new programs (spawn, forkserver), or as copies (fork).",
        )


def define_elastic_flags() -> None:
    """Define torchrun's flags, such as `--nproc_per_node`. Idempotent."""
    if "nproc_per_node" in FLAGS:
        return
    flags.DEFINE_integer(
        "nproc_per_node",
        0,
        "Run main in this number of processes on this machine, restarted together if one fails; "
        "0: in this process.",
        lower_bound=0,
    )
    flags.DEFINE_string("nnodes", "1", "How many machines take part: N, or MIN:MAX.")
    flags.DEFINE_integer("max_restarts", 0, "How often the processes are restarted.", lower_bound=0)
    flags.DEFINE_string(
        "rdzv_endpoint",
        "",
        "HOST:PORT where machines meet, the same on all of them; empty: this machine is alone.",
    )
    flags.DEFINE_string("rdzv_backend", "c10d", "The rendezvous backend, as for torchrun.")
    flags.DEFINE_string(
        "rdzv_id",
        "",
        "The job's name, the same on all machines; needed if several jobs share an endpoint.",
    )
