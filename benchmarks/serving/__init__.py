# SPDX-License-Identifier: Apache-2.0
"""Compares torch_google/serving with LitServe's own server; see README.md."""
