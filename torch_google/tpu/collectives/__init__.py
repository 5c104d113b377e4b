# SPDX-License-Identifier: Apache-2.0
"""The backend `tpu` of torch.distributed."""
