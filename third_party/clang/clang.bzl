# SPDX-License-Identifier: Apache-2.0
"""The module extension `clang`: compiler, linker and sysroot from Debian packages, as `@clang`.

Nothing is installed. All packages are unpacked into one tree, `root`. The scripts in `bin` start the
tree's programs on the tree's own C library. The machine needs `/bin/sh` but no compiler.
"""

load("//third_party/fetch:apt.bzl", "apt_download_all")
load(":packages.bzl", "PACKAGES")

# The environment variable that contains the URL of a Debian mirror, without `/pool`. It is needed
# on machines that lack apt or whose apt settings do not include Debian 12.
MIRROR = "DEBIAN_MIRROR"

# The programs in bin/, which are links to launch.sh.
_PROGRAMS = ["clang", "clang++", "ld.lld", "ar", "nm", "objcopy", "objdump", "readelf", "strip"]

_LOADER = "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"

# Files and folders that no compilation reads. Once they are deleted, the tree is small enough to
# list each file as an input.
_UNUSED = [
    "etc",
    "sbin",
    "usr/lib/compat-ld",
    "usr/lib/gold-ld",
    "usr/lib/gprofng-gui",
    "usr/lib/llvm-19/lib/cmake",
    "usr/lib/llvm-19/share",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/gprofng",
    "usr/lib/x86_64-linux-gnu/ldscripts",
    "usr/sbin",
    "usr/share",
]

# Packages that contain the licences of the C and C++ runtimes, parts of which are linked into each
# program.
_LICENCES = ["gcc-12-base", "libc6"]

def unavailable(files, reason):
    """Return the one-line error for packages that could not be downloaded.

    Args:
      files: {any key: (path in the archive, sha256)} of the packages.
      reason: the cause of the failure, in one line.

    Returns:
      The line. It names a package, the cause and the next step.
    """
    paths = sorted([path for path, _ in files.values()])
    more = " and {} more".format(len(paths) - 1) if len(paths) > 1 else ""
    return "third_party/clang: no mirror has {}{} with the pinned sha256 ({}). {}".format(
        paths[0],
        more,
        reason,
        ("Set {}=http://HOST/debian (a mirror, or a snapshot, that has Debian 12), or build with the " +
         "machine's own compiler: with --config=hostcc").format(MIRROR),
    )

def _from_named_mirror(rctx, files):
    """Download like apt_download_all, but from the mirror that the variable MIRROR names."""
    mirror = rctx.getenv(MIRROR)
    if not mirror:
        return files, "{} is not set".format(MIRROR)
    absent = {}
    for output, (path, sha256) in files.items():
        url = "{}/{}".format(mirror.rstrip("/"), path.replace("+", "%2b"))
        if not rctx.download(url, output, sha256, allow_fail = True).success:
            absent[output] = (path, sha256)
    return absent, ("{} does not have files with these hashes".format(mirror) if absent else "")

def _fetch(rctx):
    """Download all packages. Return their paths in the repository."""
    files = {path.rpartition("/")[2]: (path, sha256) for path, sha256 in PACKAGES.items()}
    absent, reasons = files, []
    for origin in [_from_named_mirror, apt_download_all]:
        absent, reason = origin(rctx, absent)
        if not absent:
            return files.keys()
        reasons.append(reason)
    fail(unavailable(absent, "; ".join(reasons)))

def _unpack(rctx, package):
    rctx.extract(package, "package")
    for data in rctx.path("package").readdir():
        if data.basename.startswith("data.tar"):
            rctx.extract(data, "root")
    rctx.delete("package")
    rctx.delete(package)

def _relink(rctx):
    """Replace absolute links, which would lead to the machine's files, with links into the tree."""
    root = str(rctx.path("root").realpath) + "/"
    shared = {
        library.basename.partition(".so.")[0]: library
        for library in rctx.path("root/lib/x86_64-linux-gnu").readdir()
        if ".so." in library.basename
    }
    for link in rctx.path("root/usr/lib/x86_64-linux-gnu").readdir():
        if not str(link.realpath).startswith(root):
            rctx.delete(link)
            if link.basename.removesuffix(".so") in shared:
                rctx.symlink(shared[link.basename.removesuffix(".so")], link)

    # Replace lib64 with a folder that contains only the loader.
    rctx.delete("root/lib64")
    rctx.symlink("root/" + _LOADER, "root/lib64/ld-linux-x86-64.so.2")

def _clang_repository_impl(rctx):
    # Resolve labels before the first download, because Bazel may restart the rule at this point.
    launch = rctx.path(rctx.attr._launch)
    build_file = rctx.path(rctx.attr._build_file)

    for package in _fetch(rctx):
        _unpack(rctx, package)
    for package in _LICENCES:
        rctx.file(
            "licences/{}.txt".format(package),
            rctx.read("root/usr/share/doc/{}/copyright".format(package)),
            executable = False,
        )
    for folder in _UNUSED:
        rctx.delete("root/" + folder)
    for path in rctx.path("root/usr/lib/gcc/x86_64-linux-gnu/12").readdir():
        # Delete gcc's sanitizer runtimes, which no program uses.
        if "san" in path.basename:
            rctx.delete(path)
    _relink(rctx)
    for name in _PROGRAMS:
        rctx.symlink(launch, "bin/" + name)
    versions = {
        name: rctx.path("root/{}/x86_64-linux-gnu/{}".format(folder, name)).realpath.basename
        for name, folder in {"libgcc_s.so.1": "lib", "libstdc++.so.6": "usr/lib"}.items()
    }
    rctx.file("versions.json", json.encode_indent(versions) + "\n")
    rctx.symlink(build_file, "BUILD.bazel")

_clang_repository = repository_rule(
    implementation = _clang_repository_impl,
    attrs = {
        "_build_file": attr.label(default = ":clang.BUILD"),
        "_launch": attr.label(default = ":launch.sh"),
    },
    # APT_CONFIG is the path of apt's configuration file. The mirror takes precedence over it.
    environ = ["APT_CONFIG", MIRROR],
)

clang = module_extension(
    doc = "The repository @clang: the C and C++ toolchain `@clang//:toolchain` and its files.",
    implementation = lambda mctx: _clang_repository(name = "clang"),
)
