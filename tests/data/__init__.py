# SPDX-License-Identifier: Apache-2.0
"""Tests of grain, torchdata and array_record on gfile's paths; see README.md."""
