# SPDX-License-Identifier: Apache-2.0
"""The checks that every change must pass; CI runs the same command."""
