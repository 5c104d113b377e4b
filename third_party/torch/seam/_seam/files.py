# SPDX-License-Identifier: Apache-2.0
"""Which file a path names: where torch reads and writes what its user names.

Upstream opens paths of this machine. Whoever plugs in may keep others (`memory://a`), and decides how
a file that is written appears. Hooks that are asked in a `with` return a context manager: one that
ends by an exception has written nothing.
"""

import functools
import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from torch._seam import Hook

_F = TypeVar("_F", bound=Callable[..., Any])


def _reading(file: Any, mmap: bool) -> AbstractContextManager[Any]:
    """What to read a path from: itself, or an open binary file; an open file is left alone.

    `mmap`: it will be mapped, so only the path of a file of this machine will do.
    """
    return nullcontext(file)


def _writing(file: Any) -> AbstractContextManager[Any]:
    """What to write instead of a path: itself, another, or an open binary file.

    An open file is left alone. The path named has its content when the context ends.
    """
    return nullcontext(file)


def _reading_by_name(path: Any) -> AbstractContextManager[Any]:
    """The path of a file of this machine that has a path's content, for code that opens it itself."""
    return nullcontext(path)


def _writing_by_name(path: Any) -> AbstractContextManager[Any]:
    """A path of this machine to write instead, with the same last component.

    The path named has its content when the context ends.
    """
    return nullcontext(path)


def _contents(file: Any) -> Any:
    """A path, or its content in a binary file where `os.path` could not find it."""
    return file


def _make_directory(path: str) -> None:
    """Make a directory and those above it."""
    os.makedirs(path, exist_ok=True)


def _directory_here(path: str) -> str:
    """A directory that is going to be used by `os.path`: itself, or an exception that says why not."""
    return path


def _checkpoint_storages(storages: list[type], reader: bool) -> list[type]:
    """Classes of checkpoint readers, or of writers: the first that knows a checkpoint's id has it."""
    return storages


def _open_url(url: Any, *args: Any, **kwargs: Any) -> Any:
    """Open a URL, or a request for one, to read, as `urllib.request.urlopen`."""
    import urllib.request

    return urllib.request.urlopen(url, *args, **kwargs)


reading = Hook(_reading)
writing = Hook(_writing)
reading_by_name = Hook(_reading_by_name)
writing_by_name = Hook(_writing_by_name)
contents = Hook(_contents)
make_directory = Hook(_make_directory)
directory_here = Hook(_directory_here)
checkpoint_storages = Hook(_checkpoint_storages)
open_url = Hook(_open_url)


def writes(parameter: str) -> Callable[[_F], _F]:
    """Decorate a function that opens and writes the path in a parameter: `writing_by_name` is asked."""

    def decorate(function: _F) -> _F:
        position = list(inspect.signature(function).parameters).index(parameter)

        @functools.wraps(function)
        def written(*args: Any, **kwargs: Any) -> Any:
            if parameter in kwargs:
                with writing_by_name(kwargs[parameter]) as path:
                    return function(*args, **{**kwargs, parameter: path})
            if len(args) <= position:
                return function(*args, **kwargs)  # which says what is missing
            with writing_by_name(args[position]) as path:
                return function(*args[:position], path, *args[position + 1 :], **kwargs)

        return written  # type: ignore[return-value]

    return decorate
