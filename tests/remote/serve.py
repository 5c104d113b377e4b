# SPDX-License-Identifier: Apache-2.0
"""Run a Remote Execution service until interrupted, and print Bazel's options for using it.

Usage: ./bazelw run //tests/remote:serve
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from tests.remote import buildbox, service


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="remote-") as directory:
        try:
            with service.running(Path(directory)) as endpoint:
                options = ("--config=remote", f"--remote_executor={endpoint}", *service.OPTIONS)
                print(*options, flush=True)
                signal.pause()
        except KeyboardInterrupt:
            return 0
        except (buildbox.UnavailableError, service.ServiceError) as error:
            print(f"serve: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
