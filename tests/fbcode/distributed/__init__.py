# SPDX-License-Identifier: Apache-2.0
"""Suites that need several processes or threads."""
