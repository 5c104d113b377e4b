# SPDX-License-Identifier: Apache-2.0
"""Merge the locks of all modules of a build, under one policy: a package has one version and one wheel.

No function here fails: each returns the error. merge_test.py calls them as Python.
"""

# The Bazel module whose versions win in a conflict, and the command that updates the locks of other
# modules.
_MODULE = "torch_google"
_UPDATE = "bazel run @torch_google//third_party/pypi:update"

# torch is not in any lock: third_party/torch/pin.json pins it.
_TORCH = "torch"

def file_name(repository, own, package, name):
    """Return a file's label as the root module writes it, for messages.

    Args:
      repository: canonical name of the file's repository, such as `other~`; empty for the root module.
      own: canonical name of torch_google's repository.
      package: the label's package.
      name: the label's name.

    Returns:
      A label such as `@torch_google//third_party/pypi:lock.json` or `//:requirements.lock.json`.
    """
    module = _MODULE if repository == own else repository.partition("~")[0].partition("+")[0]
    return "%s//%s:%s" % ("@" + module if module else "", package, name)

def check_requirements(file, lock, requirements, text):
    """Check that the lock was made from these requirements.

    Args:
      file: the lock's name for messages.
      lock: the decoded lock.
      requirements: the requirements file's name for messages.
      text: the content of the requirements file.

    Returns:
      A one-line error, or None.
    """
    lines = [line.partition("#")[0].strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    if sorted(lines) == sorted(lock["requirements"]):
        return None
    changed = [line for line in lines if line not in lock["requirements"]] or \
              [line for line in lock["requirements"] if line not in lines]
    return "%s: '%s' changed after %s was made. Run `%s -- %s`." % (
        requirements,
        (changed or ["a line"])[0],
        file,
        _UPDATE,
        _path(requirements),
    )

def merge_locks(locks, torch_version):
    """Merge locks.

    Args:
      locks: {name for messages: decoded lock}. Messages compare later locks with earlier ones.
      torch_version: the pinned version of torch.

    Returns:
      ({key: package}, None), or (None, a one-line error). Each package has `lock`, the name of its first lock.
    """
    packages = {}
    for file, lock in locks.items():
        for key, package in lock["packages"].items():
            if key not in packages:
                packages[key] = dict(package, lock = file)
                continue
            error = _disagreement(key, packages[key], package, file)
            if error:
                return None, error

            # A later lock may require more extras of the package than an earlier one.
            requires = {name: None for name in packages[key]["requires"] + package["requires"]}
            packages[key] = dict(packages[key], requires = sorted(requires))
    for file, lock in locks.items():
        error = _unmet(file, lock, packages, torch_version)
        if error:
            return None, error
    return packages, None

def with_canonical_labels(annotations, repository):
    """Make labels in annotations independent of the repository that reads them.

    Args:
      annotations: decoded annotations, with labels such as `//third_party/torchvision:overlay`.
      repository: canonical name of the repository that has them; empty for the root module.

    Returns:
      The annotations, with labels such as `@@other~//third_party/torchvision:overlay`.
    """
    return {
        key: dict(row, overlay = "@@%s%s" % (repository, row["overlay"])) if "overlay" in row else row
        for key, row in annotations.items()
    }

def merge_annotations(files, packages):
    """Merge annotations.

    Args:
      files: {name for messages: (decoded annotations, whether to reject unknown packages)}.
      packages: the merged packages.

    Returns:
      ({key: annotation}, None), or (None, a one-line error).
    """
    merged = {}
    origins = {}
    for file, (annotations, strict) in files.items():
        for key, row in annotations.items():
            if key not in packages:
                if strict:
                    return None, "%s: '%s' is in no lock. Remove the entry, or add the package to a lock." % (file, key)
                continue
            if merged.get(key, row) != row:
                return None, "%s and %s annotate '%s' differently. Remove one entry." % (origins[key], file, key)
            merged[key] = row
            origins.setdefault(key, file)
    return merged, None

def replaced_wheels(tags, packages):
    """Return the wheels in whose place the build uses other targets, such as imported projects.

    Args:
      tags: (wheel, label of the target, whether to reject an unknown wheel) triples.
      packages: the merged packages.

    Returns:
      ({key: label}, None), or (None, a one-line error).
    """
    replaced = {}
    for wheel, label, strict in tags:
        if wheel not in packages:
            if strict:
                return None, "pypi.replace(wheel = \"%s\"): no lock has this wheel. Remove the line, or correct the name." % wheel
            continue
        if replaced.get(wheel, label) != label:
            return None, "pypi.replace(wheel = \"%s\") is given for both %s and %s. Remove one: a build has one version of a package." % (
                wheel,
                replaced[wheel],
                label,
            )
        replaced[wheel] = label
    return replaced, None

def _path(name):
    """Return the path, from the root of its repository, of the file with this label."""
    return name.partition("//")[2].replace(":", "/").removeprefix("/")

def _update(*files):
    """Return the next step for conflicting locks: to update those that are not torch_google's."""
    others = [file for file in files if not file.startswith("@%s//" % _MODULE)]
    if not others:
        return "Run third_party/pypi/update.py"
    inputs = [_path(file).replace(".lock.json", ".in") for file in others]
    return "Run `%s -- %s`: it keeps the versions of torch_google" % (_UPDATE, " ".join(inputs))

def _disagreement(key, package, other, file):
    origin = package["lock"]
    if package["version"] != other["version"]:
        return "%s is %s in %s, but %s in %s. A build has one version of a package. %s." % (
            key,
            package["version"],
            origin,
            other["version"],
            file,
            _update(origin, file),
        )
    for field in ["filename", "sha256"]:
        if package[field] != other[field]:
            return "%s %s has the %s %s in %s, but %s in %s. %s. %s." % (
                key,
                package["version"],
                field,
                package[field],
                origin,
                other[field],
                file,
                "A build has one wheel of a version: find out which of the two the index serves",
                _update(origin, file),
            )
    return None

def _unmet(file, lock, packages, torch_version):
    """Return an error if a package of the lock lacks a dependency, or was resolved with another version."""
    for key, package in lock["packages"].items():
        for name in package["requires"]:
            if name != _TORCH and name not in packages:
                return "%s: '%s' requires '%s', which is in no lock. %s." % (file, key, name, _update(file))
    for key, version in lock.get("resolved_with", {}).items():
        current = torch_version if key == _TORCH else packages.get(key, {}).get("version")
        if current != version:
            return "%s was resolved with %s %s, but this build has %s. %s." % (
                file,
                key,
                version,
                current or "none",
                _update(file),
            )
    return None
