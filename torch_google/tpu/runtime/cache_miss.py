# SPDX-License-Identifier: Apache-2.0
"""The error that cache-only mode raises."""

from __future__ import annotations


class CacheMissError(RuntimeError):
    """Raised in cache-only mode if a program is not in any cache and would have to be compiled."""

    def __init__(self, name: str, key: str) -> None:
        super().__init__(
            f"tpu: {name} is not compiled, and this is cache-only mode: {key}. "
            "Run it once outside of torch.tpu.cache_only(), or fill the compile cache"
        )
