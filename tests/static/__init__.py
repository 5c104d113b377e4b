# SPDX-License-Identifier: Apache-2.0
"""What the static build promises of its programs."""
