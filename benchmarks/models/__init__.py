# SPDX-License-Identifier: Apache-2.0
"""Compare models of libraries on the tpu device with their peers; see README.md."""
