# SPDX-License-Identifier: Apache-2.0
"""Initializes the device: first the JAX backend, then all components registered with torch.

Only this module imports all of those components. They do not import it: to initialize the device,
they call `_C.start()`, which calls this module's `start`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch_google.tpu.runtime import platform

_lock = threading.Lock()
_devices = 0


def start() -> int:
    """Initialize the device and return the number of devices. Idempotent.

    If an exception such as KeyboardInterrupt interrupts initialization, the next call starts over.
    """
    global _devices
    with _lock:
        if not _devices:
            with _collection_paused():
                devices = platform.launch()
                _register_rooms(devices)
                _devices = devices
    return _devices


def _register_rooms(devices: int) -> None:
    """Register each component of the device with torch. Idempotent."""
    # Import these modules only now, because they load JAX or register kernels that cannot run until
    # the device is initialized.
    from torch_google.tpu import composites
    from torch_google.tpu.eager import copy_kernels, recorded_operators
    from torch_google.tpu.fused import fusion
    from torch_google.tpu.lowerings import meta_kernels, recurrent_operators  # noqa: F401
    from torch_google.tpu.runtime import cpu_kernel_setting, memory, size_bucket_setting
    from torch_google.tpu.torch_hooks import compile_adapter, fake_tensors, optimizer_steps

    compile_adapter.register()
    copy_kernels.register()
    fake_tensors.register()
    # Register the composites before recorded_operators.record(), which skips operators that have a
    # kernel.
    composites.register()
    recorded_operators.record([platform.device(0)])
    fusion.register()
    optimizer_steps.install()
    memory.limit_all(devices)
    size_bucket_setting.choose()
    cpu_kernel_setting.choose()


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the garbage collector, because importing JAX allocates 100,000 objects that survive.

    At the end, move them to the oldest generation, as if the collector had already examined them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
