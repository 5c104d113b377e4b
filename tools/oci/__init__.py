# SPDX-License-Identifier: Apache-2.0
"""Container images of PARs: layouts, attestations, and a registry client. See README.md."""
