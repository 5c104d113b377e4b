# SPDX-License-Identifier: Apache-2.0
"""The `tpu` device of torch: PrivateUse1 on JAX and PJRT."""
