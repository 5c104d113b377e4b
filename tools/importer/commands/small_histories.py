# SPDX-License-Identifier: Apache-2.0
"""Test data: patches, and small replicas of absl-py and fsspec releases with the real changes.

absl-py 2.1.0 assigned flag holders to constants, returned the profiler's exit status directly,
guarded stream flushes, annotated the flag methods and added type stubs. 2.3.0 shortened super()
calls and replaced EnvironmentError with OSError. fsspec 2025.5.0 added protocols and no longer
needs the `err` key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Release = Mapping[str, str]


@dataclass(frozen=True)
class Edit:
    """A patch that replaces `old` with `new` in the file `path`."""

    subject: str
    path: str
    old: str
    new: str

    @property
    def added(self) -> str:
        """Return the contiguous lines that the patch adds."""
        kept = self.old.splitlines(keepends=True)
        return "".join(line for line in self.new.splitlines(keepends=True) if line not in kept)


_LOGGING = '''\
"""Logging."""

import logging
import time

flags.DEFINE_boolean('logtostderr',
                     False,
                     'Write to stderr only?')


def prefix(record):
  """Returns the start of a line."""
  created = time.localtime(record.created)
  return '%02d%02d ' % (created.tm_mon, created.tm_mday)


class PythonHandler(logging.StreamHandler):
  """A handler."""

  def __init__(self, stream=None):
    super(PythonHandler, self).__init__(stream)
    self.stream = stream
    self.current_file_name = None

  def flush(self):
    self.acquire()
    try:
      self.stream.flush()
    finally:
      self.release()
'''
_FLAG = '''\
class Flag(object):
  """A flag."""

  def __init__(self, name, default):
    self.name = name
    self.present = 0
    self.value = default

  def unparse(self):
    self.value = self.default
    self.present = 0

  def serialize(self):
    return self._serialize(self.value)
'''
_APP = '''\
def _run_main(main, argv):
  """Calls main."""
  if profile:
    retval = profiler.runcall(main, argv)
    sys.exit(retval)
  else:
    sys.exit(main(argv))


def usage(shorthelp=False):
  """Writes the help."""
  print(shorthelp)
'''
_COMMAND_NAME = """\
def make_process_name_useful():
  try:
    with open('/proc/self/comm', 'w') as file:
      file.write(name)
  except EnvironmentError:
    import ctypes
    number = ctypes.c_ulong(15)
    ctypes.CDLL('libc.so.6').prctl(number, name)
"""
_TESTING = """\
class TestCase(unittest.TestCase):

  def __init__(self, *args, **kwargs):
    super(TestCase, self).__init__(*args, **kwargs)
    self._outcome = None

  def setUp(self):
    super(TestCase, self).setUp()
    self._exit_stack = None
"""


def _edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


_FIRST = {
    "absl/__init__.py": "# Copyright 2017\n",
    "absl/app.py": _APP,
    "absl/command_name.py": _COMMAND_NAME,
    "absl/flags/_flag.py": _FLAG,
    "absl/logging/__init__.py": _LOGGING,
    "absl/testing/absltest.py": _TESTING,
}
_SECOND = {
    **_FIRST,
    "absl/app.py": _edited(
        _APP,
        (
            "    retval = profiler.runcall(main, argv)\n    sys.exit(retval)\n",
            "    sys.exit(profiler.runcall(main, argv))\n",
        ),
    ),
    "absl/app.pyi": "def usage(shorthelp: bool = ...) -> None: ...\n",
    "absl/command_name.py": _edited(
        _COMMAND_NAME,
        ("import ctypes\n", "import ctypes  # pylint: disable=g-import-not-at-top\n"),
    ),
    "absl/flags/_flag.py": _edited(
        _FLAG,
        ("class Flag(object)", "class Flag(Generic[_T])"),
        ("def unparse(self):", "def unparse(self) -> None:"),
        ("def serialize(self):", "def serialize(self) -> str:"),
    ),
    "absl/logging/__init__.py": _edited(
        _LOGGING,
        (
            "flags.DEFINE_boolean('logtostderr',\n                     False,\n"
            "                     'Write to stderr only?')\n",
            "LOGTOSTDERR = flags.DEFINE_boolean(\n    'logtostderr',\n    False,\n"
            "    'Write to stderr only?',\n)\n",
        ),
        (
            "      self.stream.flush()\n",
            "      if self.stream and hasattr(self.stream, 'flush'):\n"
            "        self.stream.flush()\n",
        ),
    ),
}
_THIRD = {
    **_SECOND,
    "absl/command_name.py": _edited(
        _SECOND["absl/command_name.py"], ("EnvironmentError", "OSError")
    ),
    "absl/logging/__init__.py": _edited(
        _SECOND["absl/logging/__init__.py"],
        ("import logging\n", "import inspect\nimport logging\n"),
        ("super(PythonHandler, self)", "super()"),
    ),
    "absl/py.typed": "",
    "absl/testing/absltest.py": _edited(_TESTING, ("super(TestCase, self)", "super()")),
}
ABSL = {"1.4.0": _FIRST, "2.1.0": _SECOND, "2.3.0": _THIRD}

# The patches, in series order. v2.1.0 contains the first one and conflicts with the second.
ABSL_PATCHES = (
    Edit(
        "Exit with the profilers result",
        "absl/app.py",
        "    retval = profiler.runcall(main, argv)\n    sys.exit(retval)\n",
        "    sys.exit(profiler.runcall(main, argv))\n",
    ),
    Edit(
        "Flush open streams only",
        "absl/logging/__init__.py",
        "      self.stream.flush()\n",
        "      if not self.stream.closed:\n        self.stream.flush()\n",
    ),
    Edit(
        "Log the year",
        "absl/logging/__init__.py",
        "  return '%02d%02d ' % (created.tm_mon, created.tm_mday)\n",
        "  return '%d%02d%02d ' % (created.tm_year, created.tm_mon, created.tm_mday)\n",
    ),
    Edit(
        "Forget how a flag was set",
        "absl/flags/_flag.py",
        "    self.value = self.default\n    self.present = 0\n",
        "    self.value = self.default\n    self.source = None\n    self.present = 0\n",
    ),
    Edit(
        "Name the process without libc",
        "absl/command_name.py",
        "    ctypes.CDLL('libc.so.6').prctl(number, name)\n",
        "    ctypes.CDLL(None).prctl(number, name)\n",
    ),
    Edit(
        "Number the tests",
        "absl/testing/absltest.py",
        "    self._exit_stack = None\n",
        "    self._exit_stack = None\n    self._number = next(_NUMBERS)\n",
    ),
)

_REGISTRY = """\
known = {
    "async_wrapper": {"class": "morefs.wrapper"},
    "file": {"class": "fsspec.local", "err": "no files"},
    "memory": {"class": "fsspec.memory"},
    "reference": {"class": "fsspec.reference"},
    "s3": {"class": "s3fs", "err": "Install s3fs"},
}


def get_filesystem_class(protocol):
    bit = known[protocol]
    try:
        register_implementation(protocol, _import_class(bit["class"]))
    except ImportError as e:
        raise ImportError(bit["err"]) from e
    return registry[protocol]
"""
FSSPEC = {
    "2025.3.0": {"fsspec/__init__.py": "", "fsspec/registry.py": _REGISTRY},
    "2025.5.0": {
        "fsspec/__init__.py": "",
        "fsspec/registry.py": _edited(
            _REGISTRY,
            ('    "async_wrapper": {"class": "morefs.wrapper"},\n', ""),
            (
                '    "file"',
                '    "asyncwrapper": {"class": "fsspec.wrapper"},\n    "file"',
            ),
            ('bit["err"]', 'bit.get("err")'),
        ),
    },
}
FSSPEC_PATCHES = (
    Edit(
        "Know cns",
        "fsspec/registry.py",
        '    "memory": {"class": "fsspec.memory"},\n',
        '    "cns": {"class": "google.cns"},\n    "memory": {"class": "fsspec.memory"},\n',
    ),
    Edit(
        "Return registered classes first",
        "fsspec/registry.py",
        "    bit = known[protocol]\n",
        "    if protocol in registry:\n        return registry[protocol]\n"
        "    bit = known[protocol]\n",
    ),
)
