# SPDX-License-Identifier: Apache-2.0
"""The aliases of one package of the hub."""

load(":wheel_targets.bzl", "WHEEL_GROUPS")

def hub_aliases(*, name, repository, files):
    """Declares `@pypi//NAME` for the wheel, `@pypi//NAME:GROUP` and `@pypi//NAME:FILE` for files.

    Args:
      name: the wheel's normalised name.
      repository: the wheel's repository.
      files: names of the wheel's single-file targets.
    """
    _alias(name, "@%s//:wheel" % repository)
    for target in WHEEL_GROUPS + files:
        _alias(target, "@%s//:%s" % (repository, target))

def _alias(name, actual):
    native.alias(
        name = name,
        actual = actual,
        visibility = ["//visibility:public"],
    )
