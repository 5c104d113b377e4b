# SPDX-License-Identifier: Apache-2.0
"""Container images of PARs: layouts, statements about images, a registry client. See README.md."""
