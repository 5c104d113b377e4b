# SPDX-License-Identifier: Apache-2.0
"""Build a private prefix: a directory tree, made from Debian packages, in which Bazel can run.

Debian's Bazel needs a newer C library than the host has, so the prefix contains the dynamic linker
and every library that Bazel's programs need. Build actions still use the host's own programs and
libraries. A prefix is built for its final path and cannot be moved.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.bazel import command, offline_modules, trust_store
from tools.bazel.launcher import write_atomically

PROGRAM_PACKAGES = (
    "bazel-bootstrap",
    "bazel-bootstrap-data",
    "bazel-features",
    "bazel-platforms",
    "bazel-rules-cc",
    "bazel-rules-java",
    "bazel-rules-license",
    "bazel-rules-proto",
    "bazel-rules-python",
    "bazel-rules-shell",
    "bazel-skylib",
    "libzstd-jni1",
    "openjdk-21-jre-headless",
    "patchelf",
)
# The prefix contains the shared libraries that these packages depend on. It omits those that only
# the JRE depends on, because Bazel's server loads no fonts, images or smart cards.
LIBRARY_ROOTS = ("bazel-bootstrap", "libzstd-jni1", "patchelf")

# The class path of Bazel's server, in order, with the Debian package that contains each jar.
# Debian's own class path lists all jars that Bazel was built with. This one lists only the jars
# that the server's classes need and that A-server.jar lacks.
JARS: Mapping[str, str] = {
    "grpc-api": "libgrpc-java",
    "grpc-auth": "libgrpc-java",
    "grpc-context": "libgrpc-java",
    "grpc-core": "libgrpc-java",
    "grpc-netty": "libgrpc-java",
    "grpc-protobuf": "libgrpc-java",
    "grpc-protobuf-lite": "libgrpc-java",
    "grpc-stub": "libgrpc-java",
    "perfmark-api": "libperfmark-java",
    "flogger": "libgoogle-flogger-java",
    "flogger-system-backend": "libgoogle-flogger-java",
    "google-extensions": "libgoogle-flogger-java",
    "caffeine": "libcaffeine-java",
    "gson": "libgoogle-gson-java",
    "rxjava": "librx-java",
    "reactive-streams": "libreactive-streams-java",
    "google-auth-library-credentials": "libgoogle-auth-java",
    "google-auth-library-oauth2-http": "libgoogle-auth-java",
    "google-http-client": "libgoogle-http-client-java",
    "google-http-client-gson": "libgoogle-http-client-java",
    "opencensus-api": "libopencensus-java",
    "opencensus-contrib-http-util": "libopencensus-java",
    "commons-compress": "libcommons-compress-java",
    "commons-io": "libcommons-io-java",
    "commons-lang3": "libcommons-lang3-java",
    "commons-codec": "libcommons-codec-java",
    "commons-pool2": "libcommons-pool2-java",
    "xz": "libxz-java",
    "java-diff-utils": "libdiffutils-java",
    "jsr305": "libjsr305-java",
    "async-profiler": "libasync-profiler-java",
    "java-allocation-instrumenter": "libjava-allocation-instrumenter-java",
}

_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_LOADER = _LIBRARIES / "ld-linux-x86-64.so.2"
_JAVA = Path("usr/lib/jvm/java-21-openjdk-amd64")
_INSTALL_BASE = Path("usr/share/bazel")
_CLIENT = Path("usr/bin/bazel")
_RC = Path("etc/bazelrc")
_REGISTRY = Path("etc/registry")
_UNUSED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/lintian",
    "usr/share/maven-repo",
    "usr/share/locale",
    "usr/lib/debug",
    "usr/lib/x86_64-linux-gnu/gconv",
)


class PrefixError(Exception):
    """Raised if the packages do not yield a working Bazel. The message is one line."""


def wanted_packages() -> list[str]:
    """Return the packages to download, except the shared libraries that LIBRARY_ROOTS need."""
    return sorted({*PROGRAM_PACKAGES, *JARS.values()})


def build(debs: Sequence[Path], *, staging: Path, prefix: Path, version: str, lock: int) -> None:
    """Create `prefix` from `debs` atomically. `staging` must be on the same file system."""
    for directory in (staging, prefix):
        shutil.rmtree(directory, ignore_errors=True)
    staging.mkdir(parents=True)
    # Unpack in parallel, because decompression takes most of the time and uses one thread per
    # package.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda deb: _unpack(deb, staging=staging, lock=lock), debs))
    for unused in _UNUSED:
        shutil.rmtree(staging / unused, ignore_errors=True)
    relink(staging)
    _patch(staging, prefix=prefix, lock=lock)
    _write_install_base(staging, prefix=prefix, version=version)
    _write_settings(staging, prefix=prefix)
    staging.replace(prefix)


def _unpack(deb: Path, *, staging: Path, lock: int) -> None:
    command.run(["dpkg-deb", "-x", deb, staging], seconds=120, hold=[lock])


def client(prefix: Path) -> Path:
    return prefix / _CLIENT


def startup_options(prefix: Path) -> tuple[str, ...]:
    """Return the startup options that Debian's Bazel client needs."""
    return (
        "--nosystem_rc",  # the system's bazelrc may be for a different version of Bazel
        f"--bazelrc={prefix / _RC}",
        f"--install_base={prefix / _INSTALL_BASE}",
        "--trust_install_base",  # Debian's client contains no hashes of these files
        f"--server_javabase={prefix / _JAVA}",
    )


def write_rc(directory: Path, *, prefix: Path) -> None:
    """Write the prefix's bazelrc to `directory`: the prefix itself or its staging directory."""
    rc = offline_modules.rc(prefix / _INSTALL_BASE, registry=prefix / _REGISTRY)
    write_atomically(directory / _RC, rc)


def check(prefix: Path, *, version: str) -> None:
    """Check Bazel's version, and that its programs load all libraries from `prefix`.

    Raises PrefixError if either check fails.
    """
    label = (prefix / _INSTALL_BASE / "build-label.txt").read_text().strip()
    if label != version:
        raise PrefixError(f"Debian's package is Bazel {label}, .bazelversion says {version}")
    for program in _programs(prefix):
        listing = command.run([prefix / _LOADER, "--list", program], seconds=10)
        for line in listing.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and not path.startswith(f"{prefix}/"):
                raise PrefixError(f"{program}: {name} is {path}, outside the prefix")


def _programs(prefix: Path) -> list[Path]:
    java = [prefix / _JAVA / "bin/java", prefix / _JAVA / "lib/jspawnhelper"]
    helpers = sorted((prefix / "usr/libexec/x86_64-linux-gnu/bazel").iterdir())
    return [prefix / _CLIENT, *helpers, *java]


def relink(staging: Path) -> None:
    """Make absolute symbolic links, such as those to /etc/java-21-openjdk, relative."""
    for directory, names, files in os.walk(staging):
        for path in (Path(directory, name) for name in (*names, *files)):
            if not path.is_symlink():
                continue
            target = os.readlink(path)
            inside = staging / target.lstrip("/")
            if target.startswith("/") and os.path.lexists(inside):
                path.unlink()
                path.symlink_to(os.path.relpath(inside, path.parent))


def _patch(staging: Path, *, prefix: Path, lock: int) -> None:
    """Make the prefix's programs use its dynamic linker and libraries.

    Set an rpath, not a runpath, because only an rpath applies to libraries that Java loads later.
    """
    patchelf: list[str | Path] = [
        staging / _LOADER,
        "--library-path",
        staging / _LIBRARIES,
        staging / "usr/bin/patchelf",
    ]
    for program in _programs(staging):
        rpath = str(prefix / _LIBRARIES)
        if program.is_relative_to(staging / _JAVA):
            rpath = f"$ORIGIN:$ORIGIN/../lib:{rpath}"
        interpreter = ["--set-interpreter", str(prefix / _LOADER)]
        libraries = ["--force-rpath", "--set-rpath", rpath]
        arguments: list[str | Path] = [*patchelf, *interpreter, *libraries, program]
        command.run(arguments, seconds=30, hold=[lock])


def _write_install_base(staging: Path, *, prefix: Path, version: str) -> None:
    """Add the release label, the class path and libzstd-jni.so to Bazel's install base."""
    absent = [jar for jar in JARS if not (staging / f"usr/share/java/{jar}.jar").exists()]
    if absent:
        raise PrefixError(f"no {absent[0]}.jar in package {JARS[absent[0]]}")
    base = staging / _INSTALL_BASE
    # Debian's server jar has no release label, without which native.bazel_version would be empty.
    (base / "label").mkdir()
    (base / "label/build-data.properties").write_text(
        f"build.label={version}\nbuild.target=bazel-bootstrap\nbuild.timestamp.as.int=0\n"
    )
    jars = [f"{prefix}/usr/share/java/{jar}.jar" for jar in JARS]
    entries = [*jars, f"{prefix / _INSTALL_BASE}/label/"]
    (base / "bazel_classpath_debian_depends.txt").write_text("\n".join(entries) + "\n")
    # Bazel loads this library from its install base to unpack .tar.zst files.
    native = staging / _INSTALL_BASE / "libzstd-jni.so"
    native.symlink_to(os.path.relpath(staging / _LIBRARIES / "libzstd-jni.so", native.parent))


def _write_settings(staging: Path, *, prefix: Path) -> None:
    offline_modules.write_stubs(staging / _INSTALL_BASE)
    (staging / _REGISTRY / "modules").mkdir(parents=True)
    (staging / _REGISTRY / "bazel_registry.json").write_text("{}\n")
    write_rc(staging, prefix=prefix)
    authorities = staging / _JAVA / "lib/security/cacerts"
    authorities.unlink(missing_ok=True)
    authorities.write_bytes(trust_store.key_store(trust_store.certificates()))
