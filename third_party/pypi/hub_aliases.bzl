# SPDX-License-Identifier: Apache-2.0
"""The aliases that make up one package of the hub."""

load(":wheel_targets.bzl", "WHEEL_GROUPS")

def hub_aliases(*, name, repository, files):
    """`@pypi//NAME` is the wheel; `@pypi//NAME:GROUP` and `@pypi//NAME:FILE` are its files.

    Args:
      name: the wheel's normalised name.
      repository: the repository that holds the wheel.
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
