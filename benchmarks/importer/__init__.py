# SPDX-License-Identifier: Apache-2.0
"""Benchmark of rebasing a patch series onto another upstream release."""
