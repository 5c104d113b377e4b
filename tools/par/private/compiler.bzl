# SPDX-License-Identifier: Apache-2.0
"""Actions of the PAR compiler, for all rules that run it."""

COMPILER_ATTRS = {
    "_compiler": attr.label(
        default = Label("//tools/par/compiler:main.py"),
        allow_single_file = True,
    ),
    "_compiler_sources": attr.label(
        default = Label("//tools/par/compiler:sources"),
    ),
    "_interpreter": attr.label(
        default = Label("//tools/par/launcher"),
        executable = True,
        # In the "exec" configuration, Bazel would build CPython a second time.
        cfg = "target",
    ),
    "_stdlib": attr.label(
        default = Label("//third_party/python:stdlib"),
        allow_single_file = True,
    ),
}

def run_compiler(ctx, command, arguments, inputs, outputs, mnemonic, progress_message, requirements = {}):
    """Runs `main.py COMMAND ARGUMENTS` with the launcher's own interpreter.

    Args:
      ctx: context of a rule with COMPILER_ATTRS.
      command: "bundle" or "link".
      arguments: Args object.
      inputs: depset of Files.
      outputs: list of Files.
      mnemonic: the action's mnemonic.
      progress_message: the action's progress message.
      requirements: additional execution requirements.
    """
    head = ctx.actions.args()
    head.add(ctx.file._stdlib.path, format = "--par-stdlib=%s")
    head.add("-c")

    # Put the workspace root first on sys.path, regardless of the action's working directory.
    head.add(
        "import sys; sys.path.insert(0, sys.argv.pop(1)); " +
        "from tools.par.compiler.main import main; sys.exit(main(sys.argv[1:]))",
    )
    suffix = "/tools/par/compiler/main.py"
    path = "/" + ctx.file._compiler.path
    head.add(path[1:-len(suffix)] if len(path) > len(suffix) else ".")
    head.add(command)
    if command == "bundle":
        # A persistent worker recompiles only those files of a large wheel that have changed. Bazel
        # requires that a worker's arguments be in a file.
        requirements = requirements | {
            "requires-worker-protocol": "json",
            "supports-workers": "1",
        }
        arguments.use_param_file("@%s", use_always = True)
        arguments.set_param_file_format("multiline")
    ctx.actions.run(
        executable = ctx.executable._interpreter,
        arguments = [head, arguments],
        inputs = depset(
            [ctx.file._stdlib],
            transitive = [inputs, ctx.attr._compiler_sources[DefaultInfo].files],
        ),
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = progress_message,
        # The order of a set's elements in marshalled code depends on the hash seed.
        env = {"PYTHONHASHSEED": "0"},
        resource_set = _resources,
        execution_requirements = requirements,
    )

def _resources(_os, _inputs):
    # The compiler sometimes uses all cores, but reserves only one. If it reserved all of them, most
    # would be idle during its serial parts.
    return {"cpu": 1, "memory": 2000}

def runfiles_path(ctx, file):
    """Return a file's path below the runfiles directory."""
    return runfiles_path_in(ctx.workspace_name, file)

def runfiles_path_in(workspace, file):
    """Like runfiles_path, for callbacks of Args, which run when ctx no longer exists."""
    if file.short_path.startswith("../"):
        return file.short_path[3:]
    return workspace + "/" + file.short_path
