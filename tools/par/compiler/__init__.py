# SPDX-License-Identifier: Apache-2.0
"""The build-time half of a PAR: bundles and links. Never imported by a running PAR."""
