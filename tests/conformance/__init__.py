# SPDX-License-Identifier: Apache-2.0
"""Compare each operator's results on the device with the CPU's, on samples from torch's op_db."""
