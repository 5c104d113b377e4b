# SPDX-License-Identifier: Apache-2.0
"""torch's own test files, from the source that the build compiles, run in one packed program."""
