# SPDX-License-Identifier: Apache-2.0
"""What says something of one release of torch alone."""

# The value of a rule's `target_compatible_with`. Elsewhere a wildcard leaves the target out, and who
# names it reads the constraint's name.
ONLY_FROM_SOURCE = select({
    "//third_party/torch:from_source": [],
    "//conditions:default": ["//third_party/torch:needs_config_static"],
})

# What is made for the published wheel, or stands in for what torch brings when it is compiled here.
ONLY_FROM_WHEEL = select({
    "//third_party/torch:from_source": ["//third_party/torch:needs_published_wheel"],
    "//conditions:default": [],
})
