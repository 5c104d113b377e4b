# SPDX-License-Identifier: Apache-2.0
"""Suites with several processes or threads."""
