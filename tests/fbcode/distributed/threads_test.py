# SPDX-License-Identifier: Apache-2.0
"""The suites of several ranks as threads."""

from __future__ import annotations

from tests.fbcode.distributed.threads import TestThreads  # noqa: F401 - pytest finds it here
