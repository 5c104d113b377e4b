# SPDX-License-Identifier: Apache-2.0
"""Training runs that resume after preemption or the loss of a machine. See README.md."""

from torch_google.resume.preemption import Preempted
from torch_google.resume.state import ResumeError, State, Stateful
from torch_google.resume.steps import steps

__all__ = ["Preempted", "ResumeError", "State", "Stateful", "steps"]
