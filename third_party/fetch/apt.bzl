# SPDX-License-Identifier: Apache-2.0
"""Downloads of files from a Debian archive's pool, with the mirrors and transport of this machine's apt.

The pool keeps a file under one path as long as any release needs it, and our own sha256 pins the bytes.
So no package index is downloaded, and apt's state is neither read nor written.
"""

# apt's own downloader, which honors the host's proxies, credentials and mirror methods.
_APT_HELPER = "/usr/lib/apt/apt-helper"

def _pool_path(package, file):
    """Return a file's path in Debian's pool: by first letter, or by four letters for `lib*`."""
    letter = package[:4] if package.startswith("lib") else package[:1]
    return "pool/main/{}/{}/{}".format(letter, package, file)

def _mirrors(rctx):
    """Return the archives in this machine's apt settings, in order, and an error or ""."""
    apt_get = rctx.which("apt-get")
    if not apt_get:
        return [], "apt-get is not on PATH"

    # With --print-uris, apt-get needs no package lists, no root privileges and no network.
    result = rctx.execute([apt_get, "update", "--print-uris"])
    if result.return_code:
        return [], "`apt-get update --print-uris` failed: " + result.stderr.strip().split("\n")[-1]
    mirrors = []
    for line in result.stdout.split("\n"):
        uri = line.split("'")[1] if line.count("'") >= 2 else ""
        base = uri.split("/dists/")[0]
        if base != uri and base not in mirrors:
            mirrors.append(base)
    if not mirrors:
        return [], "apt's settings name no archive"
    return mirrors, ""

def _download(rctx, mirror, files):
    """Download files, {output: (pool path, sha256)}, from one mirror. Return an error or ""."""
    words = [
        _APT_HELPER,
        # By default, apt run as root switches to a user that cannot write to this directory.
        "-oAPT::Sandbox::User=root",
        "download-file",
    ]
    for output, (path, sha256) in files.items():
        url = "{}/{}".format(mirror, path.replace("+", "%2b"))
        words.extend([url, str(rctx.path(output)), "SHA256:" + sha256])
    result = rctx.execute(words)
    if result.return_code == 0:
        return ""

    # Some files are missing or have a wrong hash. apt renames a file with a wrong hash to *.FAILED.
    for output in files:
        rctx.delete(output + ".FAILED")
    errors = [line for line in result.stderr.split("\n") if line.startswith("E: ")]
    return errors[0][3:] if errors else "apt-helper exit {}".format(result.return_code)

def apt_download_all(rctx, files):
    """Downloads files in the pool from the machine's own Debian mirrors, many at once.

    Args:
      rctx: the repository context.
      files: {path to write, inside the repository: (path in the archive, sha256)}.

    Returns:
      The files that no mirror has, in the same form, and one line that says why.
    """
    mirrors, error = _mirrors(rctx)
    if error:
        return files, error
    if not rctx.path(_APT_HELPER).exists:
        return files, "{} does not exist".format(_APT_HELPER)
    reasons = []
    for mirror in mirrors:
        reason = _download(rctx, mirror, files)
        if not reason:
            return {}, ""
        reasons.append(reason)
        files = {output: pin for output, pin in files.items() if not rctx.path(output).exists}
    return files, ("; ".join(reasons) if files else "")

def apt_download(rctx, package, file, sha256, output):
    """Downloads one file of a source package from the machine's own Debian mirror.

    Args:
      rctx: the repository context.
      package: the Debian source package's name.
      file: the file's name in the pool.
      sha256: the hash of its bytes.
      output: the path to write, inside the repository.

    Returns:
      An empty string, or a one-line error.
    """
    _, error = apt_download_all(rctx, {output: (_pool_path(package, file), sha256)})
    return error
