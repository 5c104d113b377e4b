# SPDX-License-Identifier: Apache-2.0
"""Libraries' own test suites, run on tpu; see README.md."""
