# SPDX-License-Identifier: Apache-2.0
"""Reports a program's estimated memory and time per device, as data, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

_GB = 1e9


@dataclass(frozen=True)
class Buffer:
    """A buffer on one device. `kind` is "argument", "result", "temporary" or "code"."""

    name: str
    kind: str
    bytes: int


@dataclass(frozen=True)
class Cost:
    """The cost per device of one operator at one source line.

    `flops` counts matmuls and convolutions, and `bytes` counts HBM traffic. `seconds` is the
    roofline: the time for the flops or for the bytes at the chip's peak rates, whichever is longer.
    `cycles` is the compiler's own estimate, or 0 if it gives none.
    """

    module: str
    op: str
    line: str
    flops: float
    bytes: int
    seconds: float
    cycles: int
    utilisation: float


@dataclass(frozen=True)
class Collective:
    """All collectives of one kind that a device takes part in.

    `bytes` is the total size of their results, and `sent` is the number of bytes that the device
    sends to other devices.
    """

    kind: str
    count: int
    bytes: int
    sent: int


@dataclass(frozen=True)
class Report:
    """An estimate for a program that was compiled, but not run.

    Numbers are per device, except for the totals `parameters` and `model_flops`. If the program
    does not fit, `error` is the compiler's message, and only the sizes of arguments are known.
    `needed` is then the size that the message gives, or else the total size of the arguments.
    """

    topology: str
    mesh: dict[str, int]
    devices: int
    parameters: int
    needed: int
    available: int
    arguments: int
    results: int
    aliased: int
    temporaries: int
    code: int
    flops: float
    model_flops: float
    bytes: int
    compute_seconds: float
    memory_seconds: float
    link_seconds: float
    trace_seconds: float
    compile_seconds: float
    buffers: tuple[Buffer, ...]
    costs: tuple[Cost, ...]
    collectives: tuple[Collective, ...]
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    error: str = ""

    @property
    def fits(self) -> bool:
        """Return whether the program fits in the device's HBM."""
        return not self.error and self.needed <= self.available

    @property
    def seconds(self) -> float:
        """Return the roofline of the whole program: a lower bound on its run time."""
        return max(self.compute_seconds, self.memory_seconds, self.link_seconds)

    @property
    def bound(self) -> str:
        """Return what limits the run time: "products" (matmuls), "HBM" or "interconnect"."""
        limits = {
            "products": self.compute_seconds,
            "HBM": self.memory_seconds,
            "interconnect": self.link_seconds,
        }
        return max(limits, key=limits.__getitem__)

    @property
    def verdict(self) -> str:
        """Return a phrase that says whether the program fits, and by how much."""
        gap = abs(self.available - self.needed) / _GB
        if self.fits:
            return f"fits, with {gap:.2f} GB to spare"
        return f"does not fit by {gap:.2f} GB"

    @property
    def grouped_costs(self) -> tuple[Cost, ...]:
        """Return the costs, slowest first. Costs that differ only by layer are combined.

        In a combined cost, an asterisk replaces each number in the module's name: `layers.*.mlp`.
        """
        groups: dict[tuple[str, str, str], list[Cost]] = {}
        for cost in self.costs:
            groups.setdefault((starred(cost.module), cost.op, cost.line), []).append(cost)
        merged = (each[0] if len(each) == 1 else _sum(key[0], each) for key, each in groups.items())
        return tuple(sorted(merged, key=lambda cost: (-cost.seconds, cost.module, cost.op)))

    @property
    def grouped_buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers, largest first. Buffers that differ only by layer are combined."""
        groups: dict[tuple[str, str], list[Buffer]] = {}
        for buffer in self.buffers:
            groups.setdefault((starred(buffer.name), buffer.kind), []).append(buffer)
        merged = (
            each[0]
            if len(each) == 1
            else Buffer(f"{len(each)} x {name}", kind, sum(b.bytes for b in each))
            for (name, kind), each in groups.items()
        )
        return tuple(sorted(merged, key=lambda buffer: (-buffer.bytes, buffer.name)))

    def json(self) -> str:
        """Return the report as JSON."""
        derived = {"fits": self.fits, "verdict": self.verdict, "bound": self.bound}
        data = {**dataclasses.asdict(self), **derived, "seconds": self.seconds}
        return json.dumps(data, indent=2) + "\n"

    def text(self, rows: int = 12) -> str:
        """Return the report as text, with at most `rows` buffers and `rows` operators."""
        return "\n".join([*self._summary(), *self._buffers(rows), *self._costs(rows), *self._end()])

    def _summary(self) -> list[str]:
        mesh = ", ".join(f"{axis}={size}" for axis, size in self.mesh.items())
        lines = [
            f"{self.topology}, {self.devices} device{'s' * (self.devices > 1)}"
            + (f" as {mesh}" if mesh else "")
            + f"; {self.parameters:,} parameters",
            f"Each device: {self.verdict} "
            f"({self.needed / _GB:.2f} of {self.available / _GB:.2f} GB)",
        ]
        if self.error:
            return lines
        return [
            *lines,
            f"  arguments {self.arguments / _GB:.3f}, new results "
            f"{max(0, self.results - self.aliased) / _GB:.3f}, temporaries "
            f"{self.temporaries / _GB:.3f}, code {self.code / _GB:.3f} GB",
            f"Roofline {self.seconds * 1e3:.3f} ms, bound by {self.bound}: products "
            f"{self.compute_seconds * 1e3:.3f} ms ({self.flops / 1e12:.3f} TFLOP), HBM "
            f"{self.memory_seconds * 1e3:.3f} ms ({self.bytes / _GB:.2f} GB), interconnect "
            f"{self.link_seconds * 1e3:.3f} ms",
            f"Traced in {self.trace_seconds:.1f} s, compiled in {self.compile_seconds:.1f} s",
        ]

    def _buffers(self, rows: int) -> list[str]:
        if not self.buffers:
            return []
        lines = ["", "Memory at the peak, the largest buffers:"]
        grouped = self.grouped_buffers
        for buffer in grouped[:rows]:
            lines.append(f"  {buffer.bytes / 1e6:12,.2f} MB  {buffer.kind:9}  {buffer.name}")
        rest = grouped[rows:]
        if rest:
            total = sum(buffer.bytes for buffer in rest)
            lines.append(f"  {total / 1e6:12,.2f} MB  {len(rest)} more")
        return lines

    def _costs(self, rows: int) -> list[str]:
        if not self.costs:
            return []
        total = sum(cost.seconds for cost in self.costs) or 1.0
        lines = ["", "Time per operator, the roofline of each:"]
        grouped = self.grouped_costs
        for cost in grouped[:rows]:
            lines.append(
                f"  {100 * cost.seconds / total:5.1f} %  {cost.seconds * 1e6:10.1f} us  "
                f"{100 * cost.utilisation:3.0f} % of peak  {cost.op:28}  {cost.module}  {cost.line}"
            )
        if grouped[rows:]:
            rest = sum(cost.seconds for cost in grouped[rows:])
            lines.append(f"  {100 * rest / total:5.1f} %  {rest * 1e6:10.1f} us  the others")
        return lines

    def _end(self) -> list[str]:
        lines: list[str] = []
        if self.collectives:
            lines += ["", "Collectives:"]
            lines += [
                f"  {c.count:5} x {c.kind:18}  {c.bytes / 1e6:10,.1f} MB of results, "
                f"{c.sent / 1e6:,.1f} MB sent by a device"
                for c in self.collectives
            ]
        if self.error:
            lines += ["", "The compiler says:", *(f"  {line}" for line in self.error.splitlines())]
        for title, items in (("Advice", self.advice), ("Notes", self.notes)):
            if items:
                lines += ["", f"{title}:", *(f"  - {item}" for item in items)]
        return lines


def starred(name: str) -> str:
    """Replace layer indices in a name with asterisks, so that all layers have the same name."""
    return re.sub(r"(?<=\.)\d+(?=[. ]|$)", "*", name)


def _sum(module: str, costs: Sequence[Cost]) -> Cost:
    seconds = sum(cost.seconds for cost in costs)
    busy = sum(cost.seconds * cost.utilisation for cost in costs)
    return Cost(
        f"{len(costs)} x {module}".strip(),
        costs[0].op,
        costs[0].line,
        sum(cost.flops for cost in costs),
        sum(cost.bytes for cost in costs),
        seconds,
        sum(cost.cycles for cost in costs),
        busy / seconds if seconds else 0.0,
    )
