# SPDX-License-Identifier: Apache-2.0
"""The program that the multiprocessing tests run. Libraries do not import this package."""
