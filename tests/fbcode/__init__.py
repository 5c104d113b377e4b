# SPDX-License-Identifier: Apache-2.0
"""Suites of our own on torch's machinery for tests, as a monorepo runs them."""
