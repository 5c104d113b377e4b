# SPDX-License-Identifier: Apache-2.0
"""A PAR that runs torch's own test files, which it takes from the source that the build compiles."""
