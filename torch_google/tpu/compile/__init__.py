# SPDX-License-Identifier: Apache-2.0
"""torch.compile for tpu: a graph of Dynamo's as one program, forward and backward; and export."""

from torch_google.tpu.compile.backend import backend
from torch_google.tpu.compile.carrier import Carrier, carry
from torch_google.tpu.compile.export import export_stablehlo

__all__ = ["Carrier", "backend", "carry", "export_stablehlo"]
