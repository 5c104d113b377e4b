# SPDX-License-Identifier: Apache-2.0
"""A benchmark of the size and start-up cost of programs that contain torch's CUDA wheel."""
