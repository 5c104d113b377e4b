# SPDX-License-Identifier: Apache-2.0
"""The build-time half of the wheel rules. Nothing that is shipped imports it."""
