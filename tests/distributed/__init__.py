# SPDX-License-Identifier: Apache-2.0
"""torch's own parallelism on the device `tpu`, compared with one process on the CPU."""
