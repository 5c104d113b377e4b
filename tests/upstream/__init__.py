# SPDX-License-Identifier: Apache-2.0
"""Tests of the modules and optimizers in torch's own test tables, on tpu and on the CPU."""
