# SPDX-License-Identifier: Apache-2.0
"""state_licences: the licence texts of a repository, as the metadata of all its targets."""

def state_licences(rctx, project, texts):
    """Create the target @REPOSITORY//licences and the REPO.bazel that names it.

    Args:
      rctx: the repository context.
      project: its name, as in the bill of materials.
      texts: {file name: licence text}.
    """
    for name, text in texts.items():
        rctx.file("licences/" + name, text, executable = False)
    rctx.file("licences/BUILD.bazel", """\
load("@torch_google//third_party/licences:licences.bzl", "licence_files")

# The texts themselves have no licence metadata.
package(default_package_metadata = [])

licence_files(
    name = "licences",
    project = {project},
    srcs = {files},
    visibility = ["//visibility:public"],
)
""".format(files = json.encode(sorted(texts)), project = json.encode(project)))
    rctx.file("REPO.bazel", 'repo(default_package_metadata = ["//licences"])\n')
