# SPDX-License-Identifier: Apache-2.0
"""Test support for the device. Nothing that ships imports this."""
