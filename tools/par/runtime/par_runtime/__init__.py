# SPDX-License-Identifier: Apache-2.0
"""The runtime of a PAR beyond the boot code. It uses the standard library only."""
