# SPDX-License-Identifier: Apache-2.0
"""`torch_tests`: files of upstream's `test/` as one directory, the import root of the tests."""

load("//tools/par:par.bzl", "par_wheel")

# Contains the hashes of all files. A PAR names the directory that it unpacks after a hash of the
# data, which does not include modules.
_INFO = "torch_tests.dist-info"

def _torch_tests_impl(ctx):
    tree = ctx.actions.declare_directory(ctx.label.name)
    commands = ["set -e", 'cd "$1"', "out=$PWD", 'cd "$OLDPWD"']
    for file in ctx.files.srcs:
        path = file.path.partition("/test/")[2]
        folder = path.rpartition("/")[0]
        commands.append('mkdir -p "$out/{}" && cp -L "{}" "$out/{}"'.format(folder, file.path, path))
    commands += [
        'cd "$out"',
        "mkdir " + _INFO,
        "find . -path ./{} -prune -o -type f -print | LC_ALL=C sort |".format(_INFO) +
        " xargs -d '\\n' sha256sum >{}/RECORD".format(_INFO),
    ]
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [tree.path],
        inputs = ctx.files.srcs,
        outputs = [tree],
        mnemonic = "TorchTests",
        progress_message = "Laying out torch's test files",
    )
    return [DefaultInfo(files = depset([tree]))]

torch_tests = rule(
    implementation = _torch_tests_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = True, mandatory = True),
    },
)

def torch_distributed_tests(version):
    """Declares distributed_tests: torch.distributed's tests alone, as a wheel.

    Args:
      version: the release that the tests belong to.
    """
    torch_tests(
        name = "distributed_tests_tree",
        testonly = True,
        srcs = native.glob(["test/distributed/**/*.py"]),
    )
    par_wheel(
        name = "distributed_tests",
        testonly = True,
        cold = ["."],
        distribution = "torch_distributed_tests",
        info = "SOURCE_INFO.json",
        site = ":distributed_tests_tree",
        version = version,
        # Ranks import them from their folder.
        zip_safe = False,
    )
