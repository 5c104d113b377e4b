# SPDX-License-Identifier: Apache-2.0
"""The cost of moving a patch series to another upstream release."""
