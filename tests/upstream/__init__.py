# SPDX-License-Identifier: Apache-2.0
"""torch's own tables of modules and optimizers, run on tpu and on the CPU."""
