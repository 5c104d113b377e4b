# SPDX-License-Identifier: Apache-2.0
"""How long it takes from an edit to the static program, and from nothing."""
