# SPDX-License-Identifier: Apache-2.0
"""Compare the device's operators with the CPU's, on torch's own samples of each operator."""
