# SPDX-License-Identifier: Apache-2.0
"""The repository rule behind `@torch_source`: a release's source, patched, with our BUILD file.

pin.json lists the origins: Debian's source package, and the tag in upstream's git.
"""

load("//third_party/fetch:apt.bzl", "apt_download")
load("//third_party/fetch:licences.bzl", "state_licences")

_PIN = Label("//third_party/torch/source:pin.json")
_CONTENTS = Label("//third_party/torch:wheel_contents.json")
_SEAM = Label("//third_party/torch:seam/_utils_internal.py")
_OVERLAY = Label("//third_party/torch/source:torch_source.BUILD")

# The script and the modules that it imports. If one of them is edited, the repository rule runs
# again.
_SCRIPT = Label("//third_party/torch/source:prepare.py")
_MODULES = [
    Label("//third_party/torch:unpack.py"),
    Label("//tools/importer:__init__.py"),
    Label("//tools/importer:apply.py"),
    Label("//tools/importer:binary.py"),
    Label("//tools/importer:errors.py"),
    Label("//tools/importer:names.py"),
    Label("//tools/importer:series.py"),
    Label("//tools/importer:snapshot.py"),
    Label("//tools/importer:tree.py"),
    Label("//tools/importer:unified.py"),
]

_TREE = "upstream"

def _from_debian(rctx, pin):
    debian = pin["debian"]
    error = apt_download(rctx, debian["package"], debian["file"], debian["sha256"], debian["file"])
    if error:
        return "Debian mirror: " + error
    rctx.extract(debian["file"], output = _TREE, stripPrefix = debian["strip_prefix"])
    rctx.delete(debian["file"])
    return ""

def _from_git(rctx, pin):
    git = rctx.which("git")
    if not git:
        return "git: not on PATH"
    url = pin["git"]["url"]
    steps = [
        ["init", "--quiet", _TREE],
        ["-C", _TREE, "fetch", "--quiet", "--depth=1", url, pin["commit"]],
        # Pinning the commit pins all files, because git checks the hash of every object.
        ["-C", _TREE, "checkout", "--quiet", "FETCH_HEAD"],
    ]
    for step in steps:
        result = rctx.execute([git] + step, timeout = 3600)
        if result.return_code:
            rctx.delete(_TREE)
            return "git: {}: {}".format(url, result.stderr.strip().split("\n")[-1])
    rctx.delete(_TREE + "/.git")
    return ""

def _torch_source_impl(rctx):
    series = rctx.path(Label("//patches/torch:%s/series" % rctx.attr.tag)).dirname
    rctx.watch_tree(series)
    seam = rctx.path(_SEAM).dirname
    rctx.watch_tree(seam)
    for label in _MODULES + [_OVERLAY]:
        rctx.path(label)
    script = rctx.path(_SCRIPT)
    pin_file = rctx.path(_PIN)
    pin = json.decode(rctx.read(_PIN))

    failures = []
    for origin in [_from_debian, _from_git]:
        rctx.report_progress("Fetching the source of torch %s" % rctx.attr.tag)
        error = origin(rctx, pin)
        if not error:
            break
        failures.append(error)
    if len(failures) == 2:
        fail("third_party/torch/source/pin.json: no origin has torch {} ({}). {}".format(
            rctx.attr.tag,
            " | ".join(failures),
            "Check the network and apt's mirror settings, then build again",
        ))

    rctx.report_progress("Patching torch %s" % rctx.attr.tag)
    result = rctx.execute(
        [rctx.which("python3"), "-E", "-s", "-S", "-B", script] +
        ["--%s=%s" % item for item in {
            "tree": rctx.path(_TREE),
            "pin": pin_file,
            "patches": series,
            "seam": seam,
            "contents": rctx.path(_CONTENTS),
            "out": rctx.path("."),
        }.items()],
        timeout = 1800,
    )
    if result.return_code:
        fail(result.stderr.strip() or "%s: ended with status %d" % (_SCRIPT, result.return_code))
    rctx.file("version.bzl", 'VERSION = "%s"\n' % pin["version"])
    state_licences(rctx, "torch", {name: rctx.read(name) for name in ["LICENSE", "NOTICE"]})
    rctx.symlink(_OVERLAY, "BUILD.bazel")

torch_source_repository = repository_rule(
    implementation = _torch_source_impl,
    doc = "The patched source tree of one release, with our BUILD file.",
    attrs = {
        "tag": attr.string(mandatory = True, doc = "Tag, and directory name of the series."),
    },
    environ = ["APT_CONFIG"],
)
