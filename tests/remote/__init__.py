# SPDX-License-Identifier: Apache-2.0
"""Tests of `--config=remote` with a Remote Execution service on this machine."""
