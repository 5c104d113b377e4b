# SPDX-License-Identifier: Apache-2.0
"""The start-up cost of a program that is packed in six ways."""
