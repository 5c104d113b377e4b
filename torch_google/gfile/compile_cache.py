# SPDX-License-Identifier: Apache-2.0
"""A cache of compiled graphs that processes and machines share, in any gfile directory.

torch lets a program replace the storage backend of its remote caches. The backend in this module
stores entries through gfile. It handles the caches for FX and AOTAutograd graphs, and those for
autotuning results and Dynamo's profiles if torch's own settings enable them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from torch._inductor import remote_cache

from torch_google.gfile.location import PathLike, locate
from torch_google.gfile.operations import Copy, MakeDirs, Open


class Backend(remote_cache.RemoteCacheBackend[bytes]):
    """A remote cache backend with one file per entry, named after the key's digest.

    Entries contain code that torch runs, so anyone who can write to the directory can inject code.
    """

    def __init__(self, directory: PathLike) -> None:
        super().__init__()
        self._directory = locate(directory)

    def _get(self, key: str) -> bytes | None:
        try:
            with Open(self._file(key), "rb") as file:
                data: bytes = file.read()
        except FileNotFoundError:
            return None
        return data

    def _put(self, key: str, data: bytes) -> None:
        path = self._file(key)
        MakeDirs(str(locate(path).parent))
        with Open(path, "wb") as file:
            file.write(data)

    def _file(self, key: str) -> str:
        name = hashlib.sha256(key.encode()).hexdigest()
        return str(self._directory.join(name[:2], name))


def set_compile_cache(directory: PathLike | None) -> None:
    """Share the results of torch.compile through a directory. None turns sharing off.

    Inductor still searches its local cache first.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    backend = None if directory is None else lambda: Backend(directory)
    remote_cache.RedisRemoteCache.backend_override_cls = backend
    inductor.fx_graph_remote_cache = None if directory is None else True
    functorch.enable_remote_autograd_cache = None if directory is None else True
    _drop_open_caches()


def set_debug_directory(directory: PathLike | None) -> None:
    """Copy each graph's TORCH_COMPILE_DEBUG output to a directory. None turns copying off.

    The output of a graph is one tar file.
    """
    import torch._inductor.config as inductor

    def upload(tar: str) -> None:
        assert directory is not None
        name = "_".join(Path(tar).parts[-2:])
        MakeDirs(directory)
        Copy(tar, str(locate(directory).join(f"{os.getpid()}_{name}")), overwrite=True)

    inductor.trace.upload_tar = None if directory is None else upload


def _drop_open_caches() -> None:
    """Drop the remote cache that torch has memoized, because it uses the old backend."""
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    get_cache: Any = AOTAutogradCache.get_remote_cache
    get_cache.cache_clear()
