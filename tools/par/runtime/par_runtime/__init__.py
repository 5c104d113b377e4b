# SPDX-License-Identifier: Apache-2.0
"""The runtime of a PAR: what its importer needs beyond the boot code. Stdlib only."""
