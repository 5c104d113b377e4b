# SPDX-License-Identifier: Apache-2.0
"""Our suites, written with torch's test framework, which run as in a monorepo."""
