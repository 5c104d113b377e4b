# SPDX-License-Identifier: Apache-2.0
"""Measure building, pushing and starting our image, and one that pip filled; see README.md."""
