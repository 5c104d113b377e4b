# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu.profiler`: what the device and its host threads did, as a trace to look at."""

from torch_google.tpu.profiler.xla_trace import Trace, trace

__all__ = ["Trace", "trace"]
