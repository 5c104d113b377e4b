# SPDX-License-Identifier: Apache-2.0
"""The repository rule behind `@torch`: pinned wheel + patch series + seam + BUILD overlay."""

load("//third_party/pypi:fetch_wheel.bzl", "fetch_wheel")

_PIN = Label("//third_party/torch:pin.json")
_SEAM = Label("//third_party/torch:seam/_utils_internal.py")
_OVERLAY = Label("//third_party/torch:BUILD.torch.bazel")
_WHEEL_TARGETS = Label("//third_party/pypi:wheel_targets.bzl")

# Named here so that an edit of any of them makes the repository anew.
_SCRIPT = Label("//third_party/torch:unpack.py")
_MODULES = [
    Label("//tools/importer:__init__.py"),
    Label("//tools/importer:apply.py"),
    Label("//tools/importer:series.py"),
    Label("//tools/importer:tree.py"),
    Label("//tools/importer:unified.py"),
]

# Unpacking and hashing 600 MB takes seconds; a busy, slow disk may need minutes.
_TIMEOUT_SECONDS = 1800

def _torch_repository_impl(rctx):
    # Everything that is watched comes before the download: a watch that is met later starts the
    # rule again.
    series = rctx.path(Label("//patches/torch:%s/series" % rctx.attr.tag)).dirname
    rctx.watch_tree(series)
    inputs = {"pin": rctx.path(_PIN), "patches": series, "seam": rctx.path(_SEAM)}
    for module in _MODULES:
        rctx.path(module)
    script = rctx.path(_SCRIPT)

    fetch_wheel(
        rctx,
        requirement = "torch==%s" % rctx.attr.version,
        filename = rctx.attr.filename,
        sha256 = rctx.attr.sha256,
        extra_index = rctx.attr.extra_index,
        source = "third_party/torch/pin.json",
        unpack = False,
    )
    rctx.report_progress("Unpacking and patching torch %s" % rctx.attr.version)
    result = rctx.execute(
        [rctx.which("python3"), "-E", "-s", "-S", "-B", script] +
        ["--%s=%s" % item for item in inputs.items()] +
        ["--wheel=%s" % rctx.attr.filename, "--out=."],
        timeout = _TIMEOUT_SECONDS,
    )
    if result.return_code:
        fail(result.stderr.strip() or "%s: ended with status %d" % (_SCRIPT, result.return_code))
    rctx.delete(rctx.attr.filename)
    rctx.template("BUILD.bazel", _OVERLAY, {
        "{deps}": repr(["@pypi//" + name for name in rctx.attr.requires]),
        "{version}": repr(rctx.attr.version),
        "{wheel_targets}": str(_WHEEL_TARGETS),
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    doc = "The patched tree of torch in `site/`, and what it was made from in SOURCE_INFO.json.",
    attrs = {
        "extra_index": attr.string(doc = "Asked when the user's own indexes lack the wheel."),
        "filename": attr.string(mandatory = True),
        "requires": attr.string_list(doc = "Names in `@pypi` of the wheels that torch needs."),
        "sha256": attr.string(mandatory = True),
        "tag": attr.string(mandatory = True, doc = "Names the directory of the series."),
        "version": attr.string(mandatory = True),
    },
)
