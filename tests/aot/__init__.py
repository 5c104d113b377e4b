# SPDX-License-Identifier: Apache-2.0
"""Compile the device's programs for TPUs without a TPU, from a description of the chip."""
