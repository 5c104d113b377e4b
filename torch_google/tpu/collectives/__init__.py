# SPDX-License-Identifier: Apache-2.0
"""The `tpu` backend for torch.distributed."""
