# SPDX-License-Identifier: Apache-2.0
"""Suites for every device that torch's test framework finds: the CPU and tpu."""
