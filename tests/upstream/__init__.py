# SPDX-License-Identifier: Apache-2.0
"""Tests that run torch's own tables of modules and optimizers on tpu and on the CPU."""
