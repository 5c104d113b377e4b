# SPDX-License-Identifier: Apache-2.0
"""The aliases for one package in `@pypi`, the hub repository."""

load(":wheel_targets.bzl", "WHEEL_GROUPS")

def hub_aliases(*, name, wheel, files):
    """Declares `@pypi//NAME` for the wheel, `@pypi//NAME:GROUP` and `@pypi//NAME:FILE` for files.

    Args:
      name: the wheel's normalized name.
      wheel: the label of the wheel. Its package has the groups and the files.
      files: names of the wheel's single-file targets.
    """
    _alias(name, wheel)
    for target in WHEEL_GROUPS + files:
        _alias(target, "%s:%s" % (wheel.rpartition(":")[0], target))

def _alias(name, actual):
    native.alias(
        name = name,
        actual = actual,
        visibility = ["//visibility:public"],
    )
