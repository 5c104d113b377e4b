# SPDX-License-Identifier: Apache-2.0
"""Google Cloud Storage by gcp-storage-emulator, in memory, on a free port, which is printed."""

from __future__ import annotations

import threading

from gcp_storage_emulator.server import create_server

if __name__ == "__main__":
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="checkpoints")
    server.start()
    print(server._api._httpd.server_address[1], flush=True)
    threading.Event().wait()
