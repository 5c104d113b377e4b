# SPDX-License-Identifier: Apache-2.0
"""A PAR that runs torch's own test files, from the source tree that the build compiles."""
