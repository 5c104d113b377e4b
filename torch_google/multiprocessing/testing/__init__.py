# SPDX-License-Identifier: Apache-2.0
"""A program that multiprocessing's tests run. Library code must not import this package."""
