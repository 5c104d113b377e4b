# SPDX-License-Identifier: Apache-2.0
"""Our own test suites on torch's test framework, which run as they would in a monorepo."""
