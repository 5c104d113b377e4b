# SPDX-License-Identifier: Apache-2.0
"""The program that multiprocessing's tests run. Library code does not import this package."""
