# SPDX-License-Identifier: Apache-2.0
"""Compile the device's programs for TPUs from descriptions, without a TPU."""
