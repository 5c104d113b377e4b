# SPDX-License-Identifier: Apache-2.0
"""Tests of grain, torchdata and array_record with gfile paths; see README.md."""
