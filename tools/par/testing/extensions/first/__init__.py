# SPDX-License-Identifier: Apache-2.0
"""A package whose C extension is linked into the interpreter."""
