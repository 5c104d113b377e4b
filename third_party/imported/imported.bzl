# SPDX-License-Identifier: Apache-2.0
"""The module extension `imported`: one repository for each imported project; see README.md."""

_SCRIPT = Label("//third_party/imported:unpack.py")
_WHEEL_TARGETS = Label("//third_party/pypi:wheel_targets.bzl")

# The modules that unpack.py imports. If one of them is edited, the repository rule runs again.
_MODULES = [
    Label("//third_party/imported:fetch.py"),
    Label("//third_party/pypi:fetch_wheel.py"),
    Label("//third_party/pypi:host_pip.py"),
    Label("//third_party/pypi:sdist.py"),
    Label("//third_party/pypi:target.py"),
    Label("//third_party/pypi:unpack_wheel.py"),
    Label("//tools/importer:__init__.py"),
    Label("//tools/importer:apply.py"),
    Label("//tools/importer:binary.py"),
    Label("//tools/importer:errors.py"),
    Label("//tools/importer:names.py"),
    Label("//tools/importer:project.py"),
    Label("//tools/importer:selection.py"),
    Label("//tools/importer:series.py"),
    Label("//tools/importer:snapshot.py"),
    Label("//tools/importer:tree.py"),
    Label("//tools/importer:tree_pin.py"),
    Label("//tools/importer:unified.py"),
    Label("//tools/importer/archives:__init__.py"),
    Label("//tools/importer/archives:archive.py"),
    Label("//tools/importer/archives:safe_path.py"),
    Label("//tools/importer/archives:zip_tree.py"),
]

_TIMEOUT_SECONDS = 1800

_BUILD = """\
load("{wheel_targets}", "wheel_targets")

exports_files(
    ["SOURCE_INFO.json"],
    visibility = ["//visibility:public"],
)

wheel_targets(
    distribution = {distribution},
    version = {version},
    deps = {deps},
    info = "SOURCE_INFO.json",
    zip_safe = {zip_safe},
)

alias(
    name = {name},
    actual = ":wheel",
    visibility = ["//visibility:public"],
)
"""

def _imported_repository_impl(rctx):
    python = rctx.which("python3")
    if not python:
        fail("%s: no python3 on PATH, which repository rules need. Install python3." % rctx.attr.pin)
    for module in _MODULES:
        rctx.path(module)
    pin = json.decode(rctx.read(rctx.path(rctx.attr.pin)))
    settings = json.decode(rctx.read(rctx.path(rctx.attr.settings)))
    workspace = rctx.path(rctx.attr.pin).dirname.dirname.dirname
    series = settings.get("series", "patches/" + rctx.attr.project)
    rctx.watch_tree(workspace.get_child(series).get_child(pin["tag"]))
    rctx.report_progress("Fetching and patching %s %s" % (rctx.attr.project, pin["tag"]))
    result = rctx.execute(
        # -E, -s, -S: ignore the user's Python settings and packages. -B: write no bytecode.
        [python, "-E", "-s", "-S", "-B", rctx.path(_SCRIPT)] + [
            "--workspace=%s" % workspace,
            "--project=%s" % rctx.attr.project,
            "--out=%s" % rctx.path("."),
        ],
        timeout = _TIMEOUT_SECONDS,
    )
    if result.return_code:
        fail(result.stderr.strip() or "%s: ended with status %d" % (_SCRIPT, result.return_code))
    facts = json.decode(rctx.read("requires.json"))
    unknown = [name for name in rctx.attr.without if name not in facts["requires"]]
    if unknown:
        fail("imported.project(name = \"%s\"): 'without' has %s, which it does not require: %s. Correct the list." % (
            rctx.attr.project,
            ", ".join(unknown),
            ", ".join(facts["requires"]),
        ))
    rctx.file("BUILD.bazel", _BUILD.format(
        wheel_targets = _WHEEL_TARGETS,
        distribution = repr(facts["distribution"]),
        version = repr(facts["version"]),
        deps = repr([
            _dependency(name, rctx.attr.siblings)
            for name in facts["requires"]
            if name not in rctx.attr.without
        ]),
        zip_safe = rctx.attr.zip_safe,
        name = repr(rctx.attr.project),
    ))

def _dependency(name, siblings):
    if name in siblings:
        return "@%s//:%s" % (siblings[name], siblings[name])
    return "@torch//:torch" if name == "torch" else "@pypi//" + name

imported_repository = repository_rule(
    implementation = _imported_repository_impl,
    doc = "An imported project's patched tree in `site/`, and its origin in SOURCE_INFO.json.",
    attrs = {
        "pin": attr.label(mandatory = True, doc = "The project's pin.json."),
        "project": attr.string(mandatory = True),
        "settings": attr.label(mandatory = True, doc = "The project's import.json."),
        "siblings": attr.string_dict(doc = "Distribution -> imported project."),
        "without": attr.string_list(doc = "Requirements to leave out of the dependencies."),
        "zip_safe": attr.bool(default = True),
    },
)

def _label(module, project, file):
    # The root module may be another workspace's, whose projects are in its own third_party folder.
    if module.is_root:
        return Label("@@//third_party/%s:%s" % (project, file))
    return Label("//third_party/%s:%s" % (project, file))

def _imported_impl(mctx):
    tags = [(module, tag) for module in mctx.modules for tag in module.tags.project]
    siblings = {}
    owners = {}
    for module, tag in tags:
        if tag.name in owners:
            fail("imported.project(name = \"%s\") is in both %s and %s. Remove one: a package has one version." % (
                tag.name,
                owners[tag.name],
                module.name,
            ))
        owners[tag.name] = module.name
        settings = json.decode(mctx.read(_label(module, tag.name, "import.json")))
        for kind in ["sdist", "wheel"]:
            distribution = settings["origins"].get(kind, {}).get("project", tag.name)
            siblings[distribution.lower().replace("-", "_").replace(".", "_")] = tag.name
    for module, tag in tags:
        imported_repository(
            name = tag.name,
            pin = _label(module, tag.name, "pin.json"),
            project = tag.name,
            settings = _label(module, tag.name, "import.json"),
            siblings = siblings,
            without = tag.without,
            zip_safe = tag.zip_safe,
        )
    return mctx.extension_metadata(reproducible = True)

_project = tag_class(
    doc = "A project in third_party/<name>, whose builder is `tree`.",
    attrs = {
        "name": attr.string(mandatory = True, doc = "The folder's name, and the repository's."),
        "without": attr.string_list(
            doc = "Requirements to leave out, because programs do not import them.",
        ),
        "zip_safe": attr.bool(
            default = True,
            doc = "False if the package opens files next to its modules.",
        ),
    },
)

imported = module_extension(
    implementation = _imported_impl,
    doc = "Makes imported projects available as `@NAME//:NAME`.",
    tag_classes = {"project": _project},
)
