# SPDX-License-Identifier: Apache-2.0
"""Measure the device tpu on sizes that change from step to step."""
