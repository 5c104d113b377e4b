# SPDX-License-Identifier: Apache-2.0
"""`source_archive`: a pinned source tarball, from the first origin that has its exact bytes."""

load(":apt.bzl", "apt_download")
load(":licences.bzl", "state_licences")

def _from_debian(rctx):
    file = rctx.attr.debian_file
    error = apt_download(rctx, rctx.attr.debian_package, file, rctx.attr.debian_sha256, file)
    if error:
        return "Debian mirror: " + error
    rctx.extract(file, stripPrefix = rctx.attr.debian_strip_prefix)
    rctx.delete(file)
    return ""

def _from_upstream(rctx):
    if not rctx.attr.urls:
        return "upstream: no address is pinned"
    if not rctx.attr.sha256 and not rctx.attr.integrity:
        return "upstream: no hash is pinned; add `sha256` or `integrity`"
    result = rctx.download_and_extract(
        rctx.attr.urls,
        sha256 = rctx.attr.sha256,
        integrity = rctx.attr.integrity,
        stripPrefix = rctx.attr.strip_prefix,
        allow_fail = True,
    )
    return "" if result.success else "upstream: no answer with {} from {}".format(
        rctx.attr.integrity or "sha256 " + rctx.attr.sha256,
        ", ".join(rctx.attr.urls),
    )

def _source_archive_impl(rctx):
    # Resolve labels before the first download, because Bazel may restart the rule at this point.
    overlay = {rctx.path(label): name for label, name in rctx.attr.files.items()}
    build_file = rctx.path(rctx.attr.build_file)

    failures = []
    for origin in [_from_debian, _from_upstream]:
        error = origin(rctx)
        if not error:
            break
        failures.append(error)
    if len(failures) == 2:
        fail("third_party/sources.bzl: {}: no origin has the pinned tarball ({}). {}".format(
            rctx.attr.package,
            " | ".join(failures),
            "Check the network and apt's mirror settings, then build again",
        ))
    _drop_package_marks(rctx)
    _state_licences(rctx)
    rctx.symlink(build_file, "BUILD.bazel")
    for path, name in overlay.items():
        rctx.symlink(path, name)

def _state_licences(rctx):
    """Create @<package>_src//licences, the metadata of every target of the repository."""
    texts = {path.rpartition("/")[2]: rctx.read(path) for path in rctx.attr.licences}
    if rctx.attr.licence_comment:
        source = rctx.read(rctx.attr.licence_comment)
        texts["LICENCE.txt"] = source[:source.index("*/") + len("*/")] + "\n"
    if not texts:
        fail("third_party/sources.bzl: {}: no licence text is named. {}".format(
            rctx.attr.package,
            "Add `licences` (its files) or `licence_comment` (a source that begins with it)",
        ))
    state_licences(rctx, rctx.attr.package, texts)

def _drop_package_marks(rctx):
    """Delete upstream's Bazel files: a nested BUILD file would hide its folder from our globs."""
    marks = ["BUILD", "BUILD.bazel", "MODULE.bazel", "WORKSPACE", "REPO.bazel"]
    names = " -o ".join(["-name " + mark for mark in marks]).split(" ")
    result = rctx.execute(["find", ".", "-type", "f", "("] + names + [")", "-delete"])
    if result.return_code:
        fail("third_party/sources.bzl: {}: find: {}".format(rctx.attr.package, result.stderr.strip()))

source_archive = repository_rule(
    doc = """One unpacked source tarball with our BUILD file.

The rule tries the Debian archive first (through apt, see apt.bzl), then the project's own addresses.
From either origin, the bytes must have the pinned hash.""",
    implementation = _source_archive_impl,
    attrs = {
        "build_file": attr.label(mandatory = True, doc = "The overlay's BUILD file."),
        "debian_file": attr.string(mandatory = True, doc = "The orig tarball's name in the pool."),
        "debian_package": attr.string(mandatory = True, doc = "Debian's source package."),
        "debian_sha256": attr.string(mandatory = True),
        "debian_strip_prefix": attr.string(),
        "files": attr.label_keyed_string_dict(doc = "Our own files, and their paths in the tree."),
        "integrity": attr.string(doc = "Hash of the upstream file, if no sha256 is published."),
        "licence_comment": attr.string(doc = "A source that begins with the licence, as a comment."),
        "licences": attr.string_list(doc = "Files with the licence."),
        "package": attr.string(mandatory = True, doc = "The name that errors use."),
        "sha256": attr.string(doc = "Of the upstream file."),
        "strip_prefix": attr.string(),
        "urls": attr.string_list(doc = "URLs of the upstream file."),
    },
    # APT_CONFIG is the path of apt's configuration file. PATH is omitted, so that a change to it
    # does not trigger another download.
    environ = ["APT_CONFIG"],
)
