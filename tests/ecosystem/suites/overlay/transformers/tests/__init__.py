# SPDX-License-Identifier: Apache-2.0
"""The package for transformers' common tests, as in transformers' own repository."""
