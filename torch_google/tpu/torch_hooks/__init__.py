# SPDX-License-Identifier: Apache-2.0
"""Connects the device to torch's extension points, such as autocast, torch.compile and DLPack.

Only the modules `registration` and `startup` import this package.
"""
