# SPDX-License-Identifier: Apache-2.0
"""Suites of more than one process, and of more than one thread, on the CPU."""
