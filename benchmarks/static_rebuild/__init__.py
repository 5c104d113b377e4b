# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the static program's build time, after an edit and from scratch."""
