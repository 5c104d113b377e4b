# SPDX-License-Identifier: Apache-2.0
"""Test support for the device. No shipped code imports it."""
