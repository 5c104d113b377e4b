# SPDX-License-Identifier: Apache-2.0
"""Run torch's own test files, from the source that the build compiles, in one packed program."""
