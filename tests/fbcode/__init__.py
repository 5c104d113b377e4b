# SPDX-License-Identifier: Apache-2.0
"""Our suites, written with torch's test framework. They run as they would in a monorepo."""
