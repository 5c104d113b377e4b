# SPDX-License-Identifier: Apache-2.0
"""Benchmark of torch.distributed: the cost on the device, relative to gloo on CPU tensors."""
