# SPDX-License-Identifier: Apache-2.0
"""The device's side of torch's extension points: autocast, torch.compile, processes, DLPack.

Only the modules `registration` and `startup` import this package.
"""
