# SPDX-License-Identifier: Apache-2.0
"""Constraints for targets that work with only some of the torches."""

# The `target_compatible_with` of targets that need the release compiled from source. In other
# builds, wildcards skip such a target, and naming it is an error that names the constraint.
ONLY_FROM_SOURCE = select({
    "//third_party/torch:from_source": [],
    "//conditions:default": ["//third_party/torch:needs_config_static"],
})

# The value for targets that need the published wheel, or that replace a part of the compiled
# release.
ONLY_FROM_WHEEL = select({
    "//third_party/torch:from_source": ["//third_party/torch:needs_published_wheel"],
    "//conditions:default": [],
})

# The value for targets that need the CPU wheel.
WITHOUT_CUDA = select({
    "//third_party/torch:with_cuda": ["//third_party/torch:needs_build_without_config_cuda"],
    "//conditions:default": [],
})
