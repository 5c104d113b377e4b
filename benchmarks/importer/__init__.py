# SPDX-License-Identifier: Apache-2.0
"""Benchmark of rebasing a patch series onto a new upstream release."""
