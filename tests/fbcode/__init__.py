# SPDX-License-Identifier: Apache-2.0
"""Our test suites, which use torch's test framework in its monorepo (fbcode) mode."""
