# SPDX-License-Identifier: Apache-2.0
"""Serve Google Cloud Storage from memory with gcp-storage-emulator, and print the port."""

from __future__ import annotations

import threading

from gcp_storage_emulator.server import create_server

if __name__ == "__main__":
    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="checkpoints")
    server.start()
    print(server._api._httpd.server_address[1], flush=True)
    threading.Event().wait()
