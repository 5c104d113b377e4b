# SPDX-License-Identifier: Apache-2.0
"""A benchmark of adding a package, and of a program with Hugging Face's libraries."""
