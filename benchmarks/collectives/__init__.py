# SPDX-License-Identifier: Apache-2.0
"""Benchmark of torch.distributed on the `tpu` device, relative to gloo on CPU tensors."""
