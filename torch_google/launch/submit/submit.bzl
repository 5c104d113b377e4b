# SPDX-License-Identifier: Apache-2.0
"""par_submit: a program that submits a PAR as a job."""

_SCRIPT = """\
#!/bin/sh
# Written by par_submit: submits one program.
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
files=$self.runfiles/{workspace}
[ -d "$files" ] || files=$PWD
exec "$files/{submitter}" --par="$files/{par}" "$@"
"""

def _par_submit_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        output,
        _SCRIPT.format(
            par = ctx.file.par.short_path,
            submitter = ctx.executable._submitter.short_path,
            workspace = ctx.workspace_name,
        ),
        is_executable = True,
    )
    files = [ctx.file.par, ctx.executable._submitter]
    return [DefaultInfo(executable = output, runfiles = ctx.runfiles(files))]

par_submit = rule(
    doc = "`bazel run NAME -- --scheduler=local --processes=2 -- ARGUMENTS` runs `par` as a job.",
    implementation = _par_submit_impl,
    attrs = {
        "par": attr.label(
            doc = "A par_binary's NAME.par, with //torch_google/launch in its deps.",
            allow_single_file = True,
            mandatory = True,
        ),
        "_submitter": attr.label(
            default = Label("//torch_google/launch/submit:submitter.par"),
            executable = True,
            cfg = "target",
        ),
    },
    executable = True,
)
