# SPDX-License-Identifier: Apache-2.0
"""Backends, servers and a second user for gfile's tests. Libraries do not import this package."""
