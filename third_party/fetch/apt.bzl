# SPDX-License-Identifier: Apache-2.0
"""Files of a Debian archive's pool, through the mirror and the transport that this machine's apt is set to.

The pool keeps a file under one path for as long as any release needs it, and our own sha256 pins
the bytes, so no package index is fetched and no apt state is read or written.
"""

# apt's own downloader: it honours the machine's proxies, credentials and mirror methods.
_APT_HELPER = "/usr/lib/apt/apt-helper"

def _pool_path(package, file):
    """Debian's pool layout: one folder per first letter, `lib*` by the first four."""
    letter = package[:4] if package.startswith("lib") else package[:1]
    return "pool/main/{}/{}/{}".format(letter, package, file)

def _mirrors(rctx):
    """The archives named in this machine's apt settings, first named first."""
    apt_get = rctx.which("apt-get")
    if not apt_get:
        return [], "apt-get is not on PATH"

    # Printing what an update would fetch works without package lists, without root and offline.
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
    """Asks one mirror for files, {output: (pool path, sha256)}. Returns why some are not there."""
    words = [
        _APT_HELPER,
        # Root's apt would drop to a user that cannot write here.
        "-oAPT::Sandbox::User=root",
        "download-file",
    ]
    for output, (path, sha256) in files.items():
        url = "{}/{}".format(mirror, path.replace("+", "%2b"))
        words.extend([url, str(rctx.path(output)), "SHA256:" + sha256])
    result = rctx.execute(words)
    if result.return_code == 0:
        return ""

    # It has none of these bytes, or others: apt keeps a file only if it has the right ones.
    for output in files:
        rctx.delete(output + ".FAILED")
    errors = [line for line in result.stderr.split("\n") if line.startswith("E: ")]
    return errors[0][3:] if errors else "apt-helper exit {}".format(result.return_code)

def apt_download_all(rctx, files):
    """Downloads files of the pool from the machine's own Debian mirrors, many at once.

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
      sha256: what its bytes must be.
      output: the path to write, inside the repository.

    Returns:
      An empty string, or one line that says why there is no file.
    """
    _, error = apt_download_all(rctx, {output: (_pool_path(package, file), sha256)})
    return error
