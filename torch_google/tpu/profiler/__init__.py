# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu.profiler`: traces the device and its host threads."""

from torch_google.tpu.profiler.xla_trace import Trace, step, trace

__all__ = ["Trace", "step", "trace"]
