# SPDX-License-Identifier: Apache-2.0
"""A packed program that runs torch's own test files, from the source that the build compiles."""
