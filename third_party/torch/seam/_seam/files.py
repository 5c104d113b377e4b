# SPDX-License-Identifier: Apache-2.0
"""The file that a path names: where torch reads and writes the paths that its user gives.

Upstream opens local paths. Another implementation may support others (`memory://a`), and decides when a written
file becomes visible. A hook that is used in a `with` statement returns a context manager; if the
context ends with an exception, nothing is written.
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
    """Return the object to read instead of a path: the path itself, or an open binary file.

    An open file is returned unchanged. If `mmap`, the file will be mapped, so only a local path
    works.
    """
    return nullcontext(file)


def _writing(file: Any) -> AbstractContextManager[Any]:
    """Return the object to write instead of a path: the path, another path, or an open binary file.

    An open file is returned unchanged. The given path gets its content when the context ends.
    """
    return nullcontext(file)


def _reading_by_name(path: Any) -> AbstractContextManager[Any]:
    """Return a local path to the content of `path`, for code that opens the file itself."""
    return nullcontext(path)


def _writing_by_name(path: Any) -> AbstractContextManager[Any]:
    """Return a local path to write instead, with the same last component.

    The given path gets its content when the context ends.
    """
    return nullcontext(path)


def _contents(file: Any) -> Any:
    """Return a path, or a binary file with its content if `os.path` could not find the path."""
    return file


def _make_directory(path: str) -> None:
    """Make a directory and its parents."""
    os.makedirs(path, exist_ok=True)


def _directory_here(path: str) -> str:
    """Return `path` for use with `os.path` as a directory, or raise an error that says why not."""
    return path


def _checkpoint_storages(storages: list[type], reader: bool) -> list[type]:
    """Return the classes of checkpoint readers or writers; the first that accepts an id is used."""
    return storages


def _open_url(url: Any, *args: Any, **kwargs: Any) -> Any:
    """Open a URL, or a request for one, for reading, like `urllib.request.urlopen`."""
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
    """Decorate a function that writes to the path in `parameter` to use `writing_by_name`."""

    def decorate(function: _F) -> _F:
        position = list(inspect.signature(function).parameters).index(parameter)

        @functools.wraps(function)
        def written(*args: Any, **kwargs: Any) -> Any:
            if parameter in kwargs:
                with writing_by_name(kwargs[parameter]) as path:
                    return function(*args, **{**kwargs, parameter: path})
            if len(args) <= position:
                return function(*args, **kwargs)  # its error says what is missing
            with writing_by_name(args[position]) as path:
                return function(*args[:position], path, *args[position + 1 :], **kwargs)

        return written  # type: ignore[return-value]

    return decorate
