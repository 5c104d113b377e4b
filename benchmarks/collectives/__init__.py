# SPDX-License-Identifier: Apache-2.0
"""The cost of torch.distributed on the device, compared with gloo on CPU tensors."""
