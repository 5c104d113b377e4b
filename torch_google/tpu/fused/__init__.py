# SPDX-License-Identifier: Apache-2.0
"""The fused mode: what a thread has recorded, as one program."""
