# SPDX-License-Identifier: Apache-2.0
"""Suites whose tests run in several processes or threads."""
