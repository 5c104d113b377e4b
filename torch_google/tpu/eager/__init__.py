# SPDX-License-Identifier: Apache-2.0
"""Operators one by one: what a call that C++ has no program for becomes."""
