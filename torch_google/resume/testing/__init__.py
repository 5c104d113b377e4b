# SPDX-License-Identifier: Apache-2.0
"""A program that tests start, stop and kill."""
