# SPDX-License-Identifier: Apache-2.0
"""The wheel as its users get it."""
