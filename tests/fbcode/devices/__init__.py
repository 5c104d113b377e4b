# SPDX-License-Identifier: Apache-2.0
"""Suites that run on all devices that torch's test framework finds, which are the CPU and tpu."""
