# SPDX-License-Identifier: Apache-2.0
"""Compare torch's own parallelism on the `tpu` device with one process on the CPU."""
