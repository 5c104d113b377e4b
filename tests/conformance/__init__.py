# SPDX-License-Identifier: Apache-2.0
"""Compare operators' results on the device with the CPU's, for sample inputs from torch's op_db."""
