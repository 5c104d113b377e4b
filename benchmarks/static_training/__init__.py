# SPDX-License-Identifier: Apache-2.0
"""Benchmark of training with the static build of torch, compared with the release wheel."""
