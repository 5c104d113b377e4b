# SPDX-License-Identifier: Apache-2.0
"""Images of PARs: the OCI layout, its statements, and a client of registries. See README.md."""
