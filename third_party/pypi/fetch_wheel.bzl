# SPDX-License-Identifier: Apache-2.0
"""Fetch a pinned wheel in a repository rule."""

# The script and the modules that it imports. If one of them changes, Bazel runs the repository rule
# again.
_SCRIPT = Label("//third_party/pypi:fetch_wheel.py")
_MODULES = [
    Label("//third_party/pypi:host_pip.py"),
    Label("//third_party/pypi:target.py"),
    Label("//third_party/pypi:unpack_wheel.py"),
]

# The timeout is long, because torch is 190 MB and some connections are slow. pip itself detects
# dead connections much earlier.
_TIMEOUT_SECONDS = 3600

def fetch_wheel(
        rctx,
        *,
        requirement,
        filename,
        sha256,
        source,
        extra_index = None,
        site = "site",
        unpack = True):
    """Fetches a wheel and unpacks it into a directory of the repository.

    Args:
      rctx: the repository rule's context.
      requirement: `NAME==VERSION`.
      filename: the wheel's file name; any other file is an error.
      sha256: the wheel's hash.
      source: the file with the pin, for messages.
      extra_index: an index to query if the user's configured ones lack the wheel.
      site: the directory to create.
      unpack: False to write the wheel itself, as `filename`, instead of the directory.
    """
    python = rctx.which("python3")
    if not python:
        fail("%s: no python3 on PATH, which repository rules need. Install python3." % source)
    for module in _MODULES:
        rctx.path(module)
    rctx.report_progress("Fetching %s" % requirement)
    result = rctx.execute(
        # -E, -s, -S: ignore the user's Python settings and packages.
        # -B: write no bytecode next to the sources.
        [python, "-E", "-s", "-S", "-B", rctx.path(_SCRIPT)] + [
            "--%s=%s" % (flag, value)
            for flag, value in {
                "requirement": requirement,
                "filename": filename,
                "sha256": sha256,
                "source": source,
                "site": site if unpack else None,
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
