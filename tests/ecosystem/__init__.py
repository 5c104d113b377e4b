# SPDX-License-Identifier: Apache-2.0
"""Libraries that people use with torch, run on tpu and compared with the CPU."""
