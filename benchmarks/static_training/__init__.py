# SPDX-License-Identifier: Apache-2.0
"""How fast the torch that is compiled here trains, beside the release wheel."""
