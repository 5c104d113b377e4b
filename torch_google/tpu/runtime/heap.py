# SPDX-License-Identifier: Apache-2.0
"""malloc settings for the `cpu` platform, which keep freed memory for the next program.

XLA frees scratch memory and results after each run of a program. glibc returns large blocks to the
operating system, and keeps at most 64 MiB for a thread with its own arena. The next run then causes
a page fault for each page, which costs a sixth of a training step's time. PJRT allocates CPU
buffers with malloc and has no allocator to configure, so these settings apply to the whole process.

All threads share one arena. It keeps up to 1 GiB of free memory at its end and returns the rest to
the system. Blocks above 128 MiB are still mapped separately, because an aligned block does not fit
into the hole that a freed block of the same size leaves.

`keep` must be called before JAX initializes any backend, because JAX then also creates a CPU
client. By default, each of the client's threads gets its own arena, in which a block cannot exceed
64 MiB.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

IN_THE_HEAP = 128 << 20  # bytes: larger blocks are mapped separately
KEPT = 1 << 30  # bytes of free memory kept at the heap's end

# Parameters of mallopt, as defined in malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


def keep(environ: Mapping[str, str] = os.environ) -> bool:
    """Make malloc keep freed memory, and return whether it accepted the settings.

    Call this function before JAX is initialized. It changes nothing and returns False if malloc is
    not glibc's, if environment variables configure malloc, or if TORCH_TPU_KEEP_HEAP=0. Raises
    ValueError if TORCH_TPU_KEEP_HEAP is neither 0 nor 1.
    """
    setting = environ.get("TORCH_TPU_KEEP_HEAP", "1")
    if setting not in ("0", "1"):
        raise ValueError(f"tpu: TORCH_TPU_KEEP_HEAP={setting}; use 0 or 1")
    if setting == "0":
        return False
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in environ):
        return False
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names or not os.confstr("CS_GNU_LIBC_VERSION"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, IN_THE_HEAP), (_TRIM_THRESHOLD, KEPT))
    return all(mallopt(name, value) == 1 for name, value in settings)
