# SPDX-License-Identifier: Apache-2.0
"""Tests of torch_google as a dependency of another workspace."""
