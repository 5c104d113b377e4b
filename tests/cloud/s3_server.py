# SPDX-License-Identifier: Apache-2.0
"""Serve S3 from memory with moto on a free loopback port, and print the port."""

from __future__ import annotations

import threading

import boto3
from moto.server import ThreadedMotoServer

if __name__ == "__main__":
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="checkpoints")
    print(port, flush=True)
    threading.Event().wait()
