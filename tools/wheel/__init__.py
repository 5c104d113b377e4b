# SPDX-License-Identifier: Apache-2.0
"""The build-time half of the wheel rules. No shipped code imports it."""
