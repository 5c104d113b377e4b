# SPDX-License-Identifier: Apache-2.0
"""Tests of the guarantees of the static build."""
