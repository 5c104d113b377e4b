# SPDX-License-Identifier: Apache-2.0
"""Compare a PAR with a venv and a container image, for CPUs and for CUDA; see README.md."""
