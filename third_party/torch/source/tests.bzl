# SPDX-License-Identifier: Apache-2.0
"""`torch_tests`: files of upstream's `test/` as one directory, the import root of the tests."""

load("//tools/par:par.bzl", "par_wheel")
load(":lists.bzl", "NO_TEST_FILES", "TEST_FILES")

# The directory of RECORD, which lists the hashes of all test files. A PAR unpacks a wheel to a
# directory named after a hash of its data files. Modules do not count as data files, but RECORD
# does, so the directory's name changes whenever a module changes.
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

def torch_test_wheels(version):
    """Declares upstream's tests as wheels: `tests`, and `distributed_tests` for torch.distributed.

    Args:
      version: the release that the tests belong to.
    """
    for name, files in {
        "distributed_tests": ["test/distributed/**/*.py", "test/distributed/**/*.csv"],
        "tests": TEST_FILES,
    }.items():
        torch_tests(
            name = name + "_tree",
            testonly = True,
            srcs = native.glob(files, exclude = NO_TEST_FILES),
        )
        par_wheel(
            name = name,
            testonly = True,
            cold = ["."],
            distribution = "torch_" + name,
            info = "SOURCE_INFO.json",
            site = ":" + name + "_tree",
            version = version,
            # The tests open files in their folder, and run programs in it.
            zip_safe = False,
        )
