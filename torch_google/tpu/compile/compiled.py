# SPDX-License-Identifier: Apache-2.0
"""A graph of AOTAutograd's, and its programs: one, or one for each set of sizes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from torch_google.tpu.compile.carrier import Carrier
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.signature import Signature
from torch_google.tpu.compile.version import Version


class Compiled:
    """Call it with a list of arguments, which it empties: what is dead may be freed.

    Dynamo's guards are trusted: where a graph has no symbols, only what they leave open tells two
    calls apart, which is how tensors lie in their storages.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any], *, options: Options) -> None:
        # AOTAutograd then passes one list, and keeps no reference of its own. It asks the instance.
        self._boxed_call = True
        self.signature = Signature(graph)
        self.options = options
        self._versions: OrderedDict[Hashable, Version] = OrderedDict()

    def __call__(self, args: list[Any]) -> list[Any]:
        signature = self.signature
        carrier = signature.carrier()
        arrays = []
        seen: list[Any] = []
        for place, own in enumerate(signature.carriers):
            value = args[place]
            if own is None:
                arrays.append(value)
                seen.append(type(value) if place in signature.numbers else value)
            else:
                array = own.take(value)
                arrays.append(array)
                seen.append((array.shape, value.storage_offset(), value.stride()))
        if signature.symbolic:
            seen += [tuple(value.shape) for value in args if isinstance(value, torch.Tensor)]
        if not self.options.precision:
            seen.append(carrier.precision())
        key = tuple(seen)
        version = self._versions.get(key)
        if version is None:
            version = self._make(key, args, arrays, carrier)
        elif signature.symbolic:
            self._versions.move_to_end(key)
        results = version(args, arrays, carrier)
        args.clear()
        return results

    @property
    def versions(self) -> int:
        """How many programs there are."""
        return len(self._versions)

    def _make(
        self, key: Hashable, args: Sequence[Any], arrays: Sequence[Any], carrier: Carrier
    ) -> Version:
        version = Version(self.signature, args, arrays, self.options)
        while len(self._versions) >= self.options.max_programs:
            self._versions.popitem(last=False)
            carrier.count("evict")
        self._versions[key] = version
        return version
