# SPDX-License-Identifier: Apache-2.0
"""The size and the starts of programs that contain torch's CUDA wheel."""
