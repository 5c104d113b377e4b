# SPDX-License-Identifier: Apache-2.0
"""The part of a PAR's runtime that is not frozen. It imports only the standard library."""
