# SPDX-License-Identifier: Apache-2.0
"""The tpu device against its peers: models, and what they cost."""
