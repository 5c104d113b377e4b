# SPDX-License-Identifier: Apache-2.0
"""Compare each operator on the device with the CPU, on the samples of torch's op_db."""
