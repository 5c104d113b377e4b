# SPDX-License-Identifier: Apache-2.0
"""Build-time code of the wheel rules. Released code does not import it."""
