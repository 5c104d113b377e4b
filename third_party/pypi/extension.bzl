# SPDX-License-Identifier: Apache-2.0
"""The module extension `pypi`: the hub `@pypi`, and one repository for each locked wheel."""

load(":repositories.bzl", "hub_repository", "wheel_repository", "wheel_repository_name")

# No two locks have the same wheel. Groups are for wheels that few targets need.
_LOCKS = [
    Label("//third_party/pypi:lock.json"),
    Label("//third_party/pypi:groups/cloud.lock.json"),
    Label("//third_party/pypi:groups/cloud_servers.lock.json"),
    Label("//third_party/pypi:groups/docs.lock.json"),
    Label("//third_party/pypi:groups/remote.lock.json"),
]
_ANNOTATIONS = Label("//third_party/pypi:annotations.json")

def _pypi_impl(mctx):
    packages = {}
    for lock in _LOCKS:
        packages = packages | json.decode(mctx.read(lock))["packages"]
    annotations = json.decode(mctx.read(_ANNOTATIONS))
    for name in annotations:
        if name not in packages:
            fail("%s: '%s' is in no lock. Remove the entry, or run third_party/pypi/update.py." % (
                _ANNOTATIONS,
                name,
            ))
    files = {name: annotations.get(name, {}).get("files", {}) for name in packages}
    for name, package in packages.items():
        wheel_repository(
            name = wheel_repository_name(name),
            distribution = package["distribution"],
            environment = annotations.get(name, {}).get("environment", {}),
            filename = package["filename"],
            files = files[name],
            requires = package["requires"],
            sha256 = package["sha256"],
            version = package["version"],
            zip_safe = annotations.get(name, {}).get("zip_safe", True),
            hot = annotations.get(name, {}).get("hot", False),
        )
    hub_repository(
        name = "pypi",
        wheels = {name: named.keys() for name, named in files.items()},
    )
    return mctx.extension_metadata(reproducible = True)

pypi = module_extension(
    implementation = _pypi_impl,
    doc = "Makes the locked wheels available as `@pypi//NAME`.",
)
