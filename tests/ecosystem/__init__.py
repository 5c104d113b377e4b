# SPDX-License-Identifier: Apache-2.0
"""Run popular libraries for torch on tpu, and compare the results with the CPU's."""
