# SPDX-License-Identifier: Apache-2.0
"""The repository rules behind every `@torch` that is a wheel: wheel + patches + seam + BUILD file.

The wheel has its own repository, so that an edit of a patch downloads nothing.
"""

load("//third_party/pypi:fetch_wheel.bzl", "fetch_wheel")

_SEAM = Label("//third_party/torch:seam/_utils_internal.py")
_OVERLAY = Label("//third_party/torch:BUILD.torch.bazel")
_WHEEL_TARGETS = Label("//third_party/pypi:wheel_targets.bzl")

# The script and the modules that it imports. If one of them is edited, the repository rule runs
# again.
_SCRIPT = Label("//third_party/torch:unpack.py")
_MODULES = [
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

# Unpacking and hashing 600 MB takes seconds, but minutes on a busy or slow disk.
_TIMEOUT_SECONDS = 1800

def _torch_wheel_repository_impl(rctx):
    fetch_wheel(
        rctx,
        # `===` compares the version as text. `==2.13.0` would also match 2.13.0+cpu, and prefer it.
        requirement = "torch===%s" % rctx.attr.version,
        filename = rctx.attr.filename,
        sha256 = rctx.attr.sha256,
        extra_index = rctx.attr.extra_index,
        source = rctx.attr.source,
        unpack = False,
    )
    rctx.file("BUILD.bazel", """\
exports_files([{file}])

filegroup(
    name = "wheel",
    srcs = [{file}],
    visibility = ["//visibility:public"],
)
""".format(file = repr(rctx.attr.filename)))

torch_wheel_repository = repository_rule(
    implementation = _torch_wheel_repository_impl,
    doc = "The pinned wheel, as published.",
    attrs = {
        "extra_index": attr.string(
            doc = "Queried if the user's own indexes lack the wheel. PyPI has the wheels for CUDA.",
        ),
        "filename": attr.string(mandatory = True),
        "sha256": attr.string(mandatory = True),
        "source": attr.string(mandatory = True, doc = "The path of the pin, for messages."),
        "version": attr.string(mandatory = True, doc = "The wheel's version in its file name."),
    },
)

def _torch_repository_impl(rctx):
    series = rctx.path(Label("//patches/torch:%s/series" % rctx.attr.tag)).dirname
    rctx.watch_tree(series)
    seam = rctx.path(_SEAM).dirname
    rctx.watch_tree(seam)
    inputs = {
        "wheel": rctx.path(Label("@%s//:%s" % (rctx.attr.wheel, rctx.attr.filename))),
        "pin": rctx.path(rctx.attr.pin),
        "patches": series,
        "seam": seam,
        "out": rctx.path("."),
    }
    for module in _MODULES:
        rctx.path(module)
    script = rctx.path(_SCRIPT)

    rctx.report_progress("Unpacking and patching torch %s" % rctx.attr.version)
    result = rctx.execute(
        [rctx.which("python3"), "-E", "-s", "-S", "-B", script] +
        ["--%s=%s" % item for item in inputs.items()] +
        (["--wheel-only"] if rctx.attr.wheel_only else []),
        timeout = _TIMEOUT_SECONDS,
    )
    if result.return_code:
        fail(result.stderr.strip() or "%s: ended with status %d" % (_SCRIPT, result.return_code))
    rctx.template("BUILD.bazel", _OVERLAY, {
        "{kernels}": repr(rctx.attr.kernels),
        "{deps}": repr(rctx.attr.deps),
        "{version}": repr(rctx.attr.version),
        "{wheel_targets}": str(_WHEEL_TARGETS),
    })

torch_repository = repository_rule(
    implementation = _torch_repository_impl,
    doc = "torch's patched tree in `site/`, and its origin in SOURCE_INFO.json.",
    attrs = {
        "deps": attr.string_list(doc = "Labels of the wheels that torch needs."),
        "filename": attr.string(mandatory = True, doc = "The wheel's name."),
        "kernels": attr.bool(doc = "Whether most bytes of its libraries are kernels for GPUs."),
        "pin": attr.label(mandatory = True, allow_single_file = True),
        "tag": attr.string(mandatory = True, doc = "Tag, and directory name of the series."),
        "version": attr.string(mandatory = True),
        "wheel": attr.string(mandatory = True, doc = "The repository that has the wheel."),
        "wheel_only": attr.bool(doc = "The pin has the wheel's hash and none of the patched tree."),
    },
)
