# SPDX-License-Identifier: Apache-2.0
"""Measurements that are run by hand; nothing depends on them."""
