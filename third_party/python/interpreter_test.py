# SPDX-License-Identifier: Apache-2.0
"""The interpreter has the expected modules, and depends on few host libraries.

These tests use unittest, because the interpreter comes without wheels such as pytest.
"""

# ruff: noqa: PT009

import ctypes
import importlib
import lzma
import os
import pathlib
import shutil
import sqlite3
import ssl
import subprocess
import sys
import sysconfig
import unittest
import zlib

_TREE, _SETUP_LOCAL = (pathlib.Path(argument).absolute() for argument in sys.argv[1:])
del sys.argv[1:]

# The most important modules for PyTorch and its dependencies.
_ESSENTIAL = {
    "_bz2",
    "_ctypes",
    "_decimal",
    "_hashlib",
    "_lzma",
    "_sqlite3",
    "_ssl",
    "mmap",
    "zlib",
}

_HOST_LIBRARIES = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
}


class ModulesTest(unittest.TestCase):
    def test_every_listed_module_is_built_in(self) -> None:
        lines = _SETUP_LOCAL.read_text().splitlines()
        listed = {line.split()[0] for line in lines if line and line[0] not in "#*"}
        self.assertEqual(_ESSENTIAL - listed, set())
        self.assertEqual(listed - set(sys.builtin_module_names), set())

    def test_no_library_of_the_host_was_seen(self) -> None:
        """If the build used optional headers from the host, it would not be reproducible."""
        from_host = {
            name
            for name, value in sysconfig.get_config_vars().items()
            if value == 1
            and ("CURSES" in name or name in {"HAVE_TERM_H", "HAVE_UUID_H", "HAVE_CRYPT_H"})
        }
        self.assertEqual(from_host, set())

    def test_every_builtin_module_imports(self) -> None:
        for name in sys.builtin_module_names:
            with self.subTest(module=name):
                importlib.import_module(name)

    def test_c_accelerators_are_in_use(self) -> None:
        import datetime
        import decimal
        import pickle

        self.assertEqual(type(decimal.Decimal.sqrt).__name__, "method_descriptor")
        self.assertEqual(type(datetime.date.ctime).__name__, "method_descriptor")
        self.assertEqual(pickle.Pickler.__module__, "_pickle")


class LibrariesTest(unittest.TestCase):
    def test_tls_library_and_the_hosts_certificates(self) -> None:
        self.assertTrue(ssl.OPENSSL_VERSION.startswith("OpenSSL 3.0."), ssl.OPENSSL_VERSION)
        self.assertEqual(ssl.get_default_verify_paths().openssl_cafile, "/etc/ssl/cert.pem")
        self.assertEqual(ssl.get_default_verify_paths().openssl_capath, "/etc/ssl/certs")
        self.assertEqual(ssl.create_default_context().verify_mode, ssl.CERT_REQUIRED)

    def test_digests(self) -> None:
        import hashlib

        self.assertEqual(
            set(hashlib.algorithms_guaranteed) - set(hashlib.algorithms_available), set()
        )
        self.assertEqual(hashlib.sha256(b"abc").hexdigest()[:16], "ba7816bf8f01cfea")
        self.assertEqual(type(hashlib.sha256()).__module__, "_hashlib")

    def test_sqlite_round_trip(self) -> None:
        path = pathlib.Path(os.environ["TEST_TMPDIR"], "a.db")
        with sqlite3.connect(path) as connection:
            connection.execute("create virtual table t using fts5(text)")
            connection.execute("insert into t values ('a static interpreter')")
        with sqlite3.connect(path) as connection:
            rows = connection.execute("select text from t where t match 'static'").fetchall()
        self.assertEqual(rows, [("a static interpreter",)])

    def test_compressors(self) -> None:
        import bz2

        data = bytes(range(256)) * 400
        for codec in (zlib, bz2, lzma):
            with self.subTest(codec=codec.__name__):
                packed = codec.compress(data)
                self.assertLess(len(packed), len(data))
                self.assertEqual(codec.decompress(packed), data)

    def test_ctypes_calls_into_libc_and_back(self) -> None:
        libc = ctypes.CDLL(None)
        order = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
        )
        values = (ctypes.c_int * 4)(3, 1, 4, 2)
        libc.qsort(values, 4, ctypes.sizeof(ctypes.c_int), order(lambda a, b: a[0] - b[0]))
        self.assertEqual(list(values), [1, 2, 3, 4])

    def test_executable_exports_the_c_api(self) -> None:
        # Extension modules and ctypes.pythonapi find the C API in the executable.
        for name in (
            "PyObject_Call",
            "PyCapsule_New",
            "_PyObject_GC_New",
            "PyMarshal_WriteLongToFile",
        ):
            self.assertTrue(
                ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value, name
            )


class HostTest(unittest.TestCase):
    def test_needs_only_glibc(self) -> None:
        listing = subprocess.run(
            ["/lib64/ld-linux-x86-64.so.2", "--list", sys.executable],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        names = {os.path.basename(line.split()[0]) for line in listing.splitlines() if line.strip()}
        self.assertEqual(names - _HOST_LIBRARIES - {"linux-vdso.so.1"}, set())

    def test_library_is_found_beside_the_executable_wherever_it_is(self) -> None:
        moved = pathlib.Path(os.environ["TEST_TMPDIR"], "moved")
        shutil.copytree(_TREE, moved)
        result = subprocess.run(
            [moved / "bin" / "python3.11", "-I", "-c", "import sys; print(sys.prefix, sys.path)"],
            capture_output=True,
            text=True,
            check=True,
            env={},
        )
        self.assertEqual(result.stderr, "")
        self.assertTrue(result.stdout.startswith(str(moved.resolve())), result.stdout)
        self.assertNotIn("/usr", result.stdout)

    def test_build_variables_follow_the_prefix(self) -> None:
        self.assertEqual(sysconfig.get_path("stdlib"), f"{sys.prefix}/lib/python3.11")
        self.assertEqual(sysconfig.get_config_var("INCLUDEPY"), f"{sys.prefix}/include/python3.11")
        self.assertEqual(sysconfig.get_config_var("EXT_SUFFIX"), ".cpython-311-x86_64-linux-gnu.so")

    def test_build_variables_name_programs_without_their_place(self) -> None:
        words = " ".join(
            value for value in sysconfig.get_config_vars().values() if isinstance(value, str)
        ).split()
        self.assertEqual([word for word in words if word.startswith(("/bin/", "/usr/bin/"))], [])

    def test_nothing_names_the_build_directory(self) -> None:
        # Paths that leaked from the build contain `execroot` or the name of build.sh's scratch
        # directory.
        for path in sorted(_TREE.rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                with self.subTest(file=str(path.relative_to(_TREE))):
                    self.assertNotIn(b"/cpython.", content)
                    self.assertNotIn(b"/execroot/", content)


if __name__ == "__main__":
    unittest.main()
