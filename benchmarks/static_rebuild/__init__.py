# SPDX-License-Identifier: Apache-2.0
"""The build time of the static program, after an edit and from scratch."""
