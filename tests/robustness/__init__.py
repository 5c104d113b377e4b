# SPDX-License-Identifier: Apache-2.0
"""Real PARs in bad surroundings."""
