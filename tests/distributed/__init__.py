# SPDX-License-Identifier: Apache-2.0
"""Compare the results of torch's parallelism on the `tpu` device with those of one CPU process."""
