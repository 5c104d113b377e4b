# SPDX-License-Identifier: Apache-2.0
"""What it costs to carry a patch series to another upstream release."""
