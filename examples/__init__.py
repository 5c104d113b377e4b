# SPDX-License-Identifier: Apache-2.0
"""Example programs. Each shows one idea and uses only public APIs."""
