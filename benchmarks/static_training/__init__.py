# SPDX-License-Identifier: Apache-2.0
"""The training speed of our compiled torch, compared with the release wheel."""
