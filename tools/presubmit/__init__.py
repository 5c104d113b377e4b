# SPDX-License-Identifier: Apache-2.0
"""Checks that every change must pass. Developers and CI run them with the same command."""
