# SPDX-License-Identifier: Apache-2.0
"""Tests of s3:// and gs:// paths with local servers."""
