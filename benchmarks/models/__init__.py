# SPDX-License-Identifier: Apache-2.0
"""Compare models of libraries on the device tpu with their peers; see README.md."""
