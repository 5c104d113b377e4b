# SPDX-License-Identifier: Apache-2.0
"""Our suites on torch's test framework, run as in a monorepo."""
