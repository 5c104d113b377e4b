# SPDX-License-Identifier: Apache-2.0
"""The folder of transformers' common tests, which is a package in its repository."""
