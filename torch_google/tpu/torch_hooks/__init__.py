# SPDX-License-Identifier: Apache-2.0
"""What the device fills of torch: autocast, torch.compile, processes, DLPack.

`registration` and `startup` import each module; nothing else does.
"""
