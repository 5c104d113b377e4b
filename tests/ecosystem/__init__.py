# SPDX-License-Identifier: Apache-2.0
"""Run popular PyTorch libraries on tpu, and compare the results with the CPU's."""
