# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for a model, with batching, limits, metrics and a graceful shutdown."""

from torch_google.serving.api import TensorAPI
from torch_google.serving.errors import RequestError, ServingError
from torch_google.serving.limits import Limits
from torch_google.serving.server import Server
from torch_google.serving.signature import Signature, Size, TensorSpec
from torch_google.serving.source import Source

__all__ = [
    "Limits",
    "RequestError",
    "Server",
    "ServingError",
    "Signature",
    "Size",
    "Source",
    "TensorAPI",
    "TensorSpec",
]
