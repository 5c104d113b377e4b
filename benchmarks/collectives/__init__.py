# SPDX-License-Identifier: Apache-2.0
"""A benchmark that compares torch.distributed on the device with gloo on CPU tensors."""
