# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that other processes and machines share, in a directory of any scheme.

torch finds a remote cache's class by name and lets a program give it another backend: this is one, on
gfile. FX graphs and AOTAutograd's are kept there; autotuning's and Dynamo's profiles, too, when their own
settings in torch ask for a remote cache.
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
    """Entries as files, named by a digest of their key; whoever may write there decides what runs."""

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
    """Keep what torch.compile makes in a directory as well, for other processes; None ends that.

    An entry is looked for in the local cache of inductor first.
    """
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    made = None if directory is None else lambda: Backend(directory)
    remote_cache.RedisRemoteCache.backend_override_cls = made
    inductor.fx_graph_remote_cache = None if directory is None else True
    functorch.enable_remote_autograd_cache = None if directory is None else True
    _forget()


def set_debug_directory(directory: PathLike | None) -> None:
    """Send what TORCH_COMPILE_DEBUG writes about each graph to a directory, as a tar file; None: no."""
    import torch._inductor.config as inductor

    def upload(tar: str) -> None:
        assert directory is not None
        below = "_".join(Path(tar).parts[-2:])
        MakeDirs(directory)
        Copy(tar, str(locate(directory).join(f"{os.getpid()}_{below}")), overwrite=True)

    inductor.trace.upload_tar = None if directory is None else upload


def _forget() -> None:
    """Let go of the caches that were made before."""
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    made: Any = AOTAutogradCache.get_remote_cache
    made.cache_clear()
