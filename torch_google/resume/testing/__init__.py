# SPDX-License-Identifier: Apache-2.0
"""A training program that tests start, stop and kill."""
