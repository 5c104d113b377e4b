# SPDX-License-Identifier: Apache-2.0
"""Tests of images use this: a small program, and a reader that shares no code with the writer."""
