# SPDX-License-Identifier: Apache-2.0
"""What it costs to start one program, packed in six ways."""
