# SPDX-License-Identifier: Apache-2.0
"""The checks that every change passes before it lands; CI runs the same command."""
