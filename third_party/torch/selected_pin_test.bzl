# SPDX-License-Identifier: Apache-2.0
"""Tests that an action reads the pin of the torch that the build uses."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

_FOLDERS = ["", "cuda/", "newer/", "source/"]

def _selected_pin_test_impl(ctx):
    env = analysistest.begin(ctx)
    arguments = [
        argument
        for action in analysistest.target_actions(env)
        if action.mnemonic == ctx.attr.mnemonic
        for argument in action.argv
    ]
    pins = ["third_party/torch/%spin.json" % folder for folder in _FOLDERS]
    used = [pin for pin in pins if [each for each in arguments if pin in each]]
    asserts.equals(env, [ctx.attr.pin], used)
    return analysistest.end(env)

def _rule(release):
    return analysistest.make(
        _selected_pin_test_impl,
        attrs = {
            "mnemonic": attr.string(doc = "The action, in target_under_test.", mandatory = True),
            "pin": attr.string(doc = "The path of the pin.", mandatory = True),
        },
        config_settings = {str(Label("//third_party/torch:release")): release},
    )

_newer_test = _rule("v2.15.0")
_source_test = _rule("v2.6.0")

def selected_pin_test(name, mnemonic, target):
    """Declares tests of an action's arguments, for each release that is not the default.

    Args:
      name: prefix of the names.
      mnemonic: the action's mnemonic.
      target: the target that has the action.
    """
    _newer_test(
        name = name + "_newer_test",
        size = "small",
        mnemonic = mnemonic,
        pin = "third_party/torch/newer/pin.json",
        target_under_test = target,
    )
    _source_test(
        name = name + "_source_test",
        size = "small",
        mnemonic = mnemonic,
        pin = "third_party/torch/source/pin.json",
        target_under_test = target,
    )
