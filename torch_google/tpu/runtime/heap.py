# SPDX-License-Identifier: Apache-2.0
"""The heap of the process, where the platform is cpu: what one program frees, the next one gets.

XLA frees the scratch memory and the results of a program after each run. glibc gives such large
pieces back to the kernel, and of more than 64 MiB it keeps none for a thread with a heap of its own:
the next run meets the same pages empty, one fault for each. That was a sixth of the time of a
training step. PJRT has no allocator of its own for the CPU that could be told so: its buffers are
malloc's, and so is what this sets for the process. So threads share one heap, which keeps what is
freed: up to 1 GiB at its end, since glibc gives all of an end back that is above the bound, and an end
is as long as the largest pieces together. Once JAX has looked for any platform it has a client of the CPU, whose
threads have heaps of their own: these never have a piece above 64 MiB. Pieces above 128 MiB are mapped apart, as before: the holes
that aligned pieces leave in a heap are as large as they are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

IN_THE_HEAP = 128 << 20  # the largest piece, in bytes
KEPT = 1 << 30  # of the heap's end

# malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


def keep(environ: Mapping[str, str] = os.environ) -> bool:
    """Let malloc keep what is freed; call it before JAX looks for platforms. Return whether it does.

    Left as it is: a malloc that is not glibc's, or that variables of the environment configure, and
    any where TORCH_TPU_KEEP_HEAP=0. Raises ValueError for another value of that than 0 or 1.
    """
    wanted = environ.get("TORCH_TPU_KEEP_HEAP", "1")
    if wanted not in ("0", "1"):
        raise ValueError(f"tpu: TORCH_TPU_KEEP_HEAP={wanted}; use 0 or 1")
    if wanted == "0":
        return False
    if any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in environ):
        return False
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names or not os.confstr("CS_GNU_LIBC_VERSION"):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, IN_THE_HEAP), (_TRIM_THRESHOLD, KEPT))
    return all(mallopt(name, value) == 1 for name, value in settings)
