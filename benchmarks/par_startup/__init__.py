# SPDX-License-Identifier: Apache-2.0
"""The start-up cost of one program, packed in six ways."""
