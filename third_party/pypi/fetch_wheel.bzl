# SPDX-License-Identifier: Apache-2.0
"""Fetching a pinned wheel from within a repository rule."""

# Named here so that an edit of any of them fetches anew.
_SCRIPT = Label("//third_party/pypi:fetch_wheel.py")
_MODULES = [
    Label("//third_party/pypi:host_pip.py"),
    Label("//third_party/pypi:target.py"),
    Label("//third_party/pypi:unpack_wheel.py"),
]

# torch is 190 MB and some lines are slow; pip has time limits of its own for a dead one.
_TIMEOUT_SECONDS = 3600

def fetch_wheel(
        rctx,
        *,
        requirement,
        filename,
        sha256,
        extra_index = None,
        source = "third_party/pypi/lock.json",
        unpack = True):
    """Fetches a wheel into the repository's directory `site`, unpacked.

    Args:
      rctx: the repository rule's context.
      requirement: `NAME==VERSION`.
      filename: the wheel's file name; any other file is refused.
      sha256: the wheel's hash.
      extra_index: an index to ask when the ones that the user configured do not have the wheel.
      source: the file that holds the pin, for messages.
      unpack: False to have the wheel itself, as `filename`, in place of `site`.
    """
    python = rctx.which("python3")
    if not python:
        fail("%s: no python3 on PATH, which repository rules need. Install python3." % source)
    for module in _MODULES:
        rctx.path(module)
    rctx.report_progress("Fetching %s" % requirement)
    result = rctx.execute(
        # -E, -s, -S: the user's Python settings and packages do not bear on the script;
        # -B: it leaves nothing beside the sources.
        [python, "-E", "-s", "-S", "-B", rctx.path(_SCRIPT)] + [
            "--%s=%s" % (flag, value)
            for flag, value in {
                "requirement": requirement,
                "filename": filename,
                "sha256": sha256,
                "source": source,
                "site": "site" if unpack else None,
                "wheel": None if unpack else filename,
                "extra-index": extra_index,
            }.items()
            if value
        ],
        timeout = _TIMEOUT_SECONDS,
    )
    if result.return_code:
        fail(result.stderr.strip() or "%s: fetching %s ended with status %d" % (
            source,
            requirement,
            result.return_code,
        ))
