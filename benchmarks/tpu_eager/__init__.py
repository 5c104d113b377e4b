# SPDX-License-Identifier: Apache-2.0
"""Compare the tpu device with its peers on several models."""
