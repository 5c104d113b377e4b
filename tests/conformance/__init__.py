# SPDX-License-Identifier: Apache-2.0
"""Compare the lowerings with the CPU, on torch's own samples of each operator."""
