# SPDX-License-Identifier: Apache-2.0
"""Test support: processes that form a process group."""
