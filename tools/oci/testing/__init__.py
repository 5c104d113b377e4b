# SPDX-License-Identifier: Apache-2.0
"""Support for tests of images: a program, and a reader that shares no code with the writer."""
