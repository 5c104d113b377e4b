# SPDX-License-Identifier: Apache-2.0
"""The module extension `buildifier`: the pinned formatter for BUILD files, as `@buildifier`.

Upstream's releases and an npm package have the same binary, so one hash covers both. The repository
looks like a wheel repository, with one package, `bazel_buildifier`, which provides the program's
path.

Only the presubmit needs it. If both downloads fail, the package contains the reason instead of the
program, and the build and the tests of everything else still work.
"""

_PIN = Label("//third_party/buildifier:pin.json")
_PAR_BZL = Label("//tools/par:par.bzl")

_NPM_PACKAGE = "@bazel/buildifier"
_NPM_MEMBER = "package/buildifier-linux_amd64"
_RELEASES = "https://github.com/bazelbuild/buildtools/releases/download"
_TIMEOUT_SECONDS = 300

_PROGRAM = "site/bazel_buildifier/buildifier"

_BUILD = """\
load("{par_bzl}", "par_wheel")

par_wheel(
    name = "wheel",
    distribution = "bazel-buildifier",
    site = "site",
    version = "{version}",
    visibility = ["//visibility:public"],
    zip_safe = False,
    deps = [],
)
"""

_FOUND = """\
import pathlib

PROGRAM = str(pathlib.Path(__file__).with_name("buildifier"))
WHY_NOT = ""
"""

_ABSENT = """\
PROGRAM = None
WHY_NOT = {why}
"""

def _buildifier_repository_impl(rctx):
    pin = json.decode(rctx.read(_PIN))
    problem = _from_npm(rctx, pin)
    if problem:
        second_problem = _from_releases(rctx, pin)
        problem = "%s; %s" % (problem, second_problem) if second_problem else None
    rctx.file(
        "site/bazel_buildifier/__init__.py",
        _ABSENT.format(why = repr(problem)) if problem else _FOUND,
        executable = False,
    )
    rctx.file("BUILD.bazel", _BUILD.format(
        par_bzl = _PAR_BZL,
        version = pin["version"],
    ), executable = False)

def _from_npm(rctx, pin):
    """Extract the program from the npm package. Return an error, or None."""
    npm = rctx.which("npm")
    if not npm:
        return "no npm on PATH"
    package = "%s@%s" % (_NPM_PACKAGE, pin["version"])
    rctx.report_progress("Fetching %s" % package)
    packed = rctx.execute(
        [npm, "pack", "--silent", "--ignore-scripts", package],
        timeout = _TIMEOUT_SECONDS,
    )
    if packed.return_code:
        return "npm pack %s ended with %d: %s" % (
            package,
            packed.return_code,
            (packed.stderr or packed.stdout).strip().partition("\n")[0],
        )
    tarball = packed.stdout.strip().rpartition("\n")[2]
    rctx.extract(tarball, output = "npm")
    rctx.delete(tarball)
    problem = _download(rctx, pin, "file://%s" % rctx.path("npm/" + _NPM_MEMBER))
    rctx.delete("npm")
    return problem

def _from_releases(rctx, pin):
    """Download the program. Return an error, or None."""
    return _download(rctx, pin, "%s/v%s/buildifier-linux-amd64" % (_RELEASES, pin["version"]))

def _download(rctx, pin, url):
    result = rctx.download(
        url,
        allow_fail = True,
        executable = True,
        output = _PROGRAM,
        sha256 = pin["sha256"],
    )
    if result.success:
        return None
    rctx.delete(_PROGRAM)  # Bazel leaves a file with a wrong hash behind
    return "%s: no file with the hash of %s" % (url, _PIN)

_buildifier_repository = repository_rule(
    implementation = _buildifier_repository_impl,
    doc = "One program, downloaded by hash.",
)

def _buildifier_impl(mctx):
    _buildifier_repository(name = "buildifier")
    return mctx.extension_metadata(
        root_module_direct_deps = ["buildifier"],
        root_module_direct_dev_deps = [],
    )

buildifier = module_extension(
    implementation = _buildifier_impl,
    doc = "Makes the pinned buildifier available as `@buildifier//:wheel`.",
)
