# SPDX-License-Identifier: Apache-2.0
"""Constraints for targets that work with only some of torch's releases and wheels."""

# The `target_compatible_with` of targets that need the release compiled from source. In other
# builds, wildcards skip such a target, and requesting it by name is an error that states the
# constraint.
ONLY_FROM_SOURCE = select({
    "//third_party/torch:from_source": [],
    "//conditions:default": ["//third_party/torch:needs_config_static"],
})

# The `target_compatible_with` of targets that need the published wheel, or that replace a part of
# the compiled release.
ONLY_FROM_WHEEL = select({
    "//third_party/torch:from_source": ["//third_party/torch:needs_published_wheel"],
    "//conditions:default": [],
})

# The `target_compatible_with` of targets that need the CPU wheel.
WITHOUT_CUDA = select({
    "//third_party/torch:is_newer": ["//third_party/torch:needs_default_release"],
    "//third_party/torch:with_cuda": ["//third_party/torch:needs_build_without_config_cuda"],
    "//conditions:default": [],
})
