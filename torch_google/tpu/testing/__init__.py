# SPDX-License-Identifier: Apache-2.0
"""Support for the device's tests. Code that we ship must not import it."""
