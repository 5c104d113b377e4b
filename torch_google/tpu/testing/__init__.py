# SPDX-License-Identifier: Apache-2.0
"""Support for the device's tests. Shipped code must not import it."""
