# SPDX-License-Identifier: Apache-2.0
"""Build-time code for the wheel rules. Released code does not import it."""
