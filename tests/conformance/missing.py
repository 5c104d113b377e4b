# SPDX-License-Identifier: Apache-2.0
"""Generate MISSING.md, the list of operators that have a CPU kernel but no device kernel.

`python -m tests.conformance.missing` writes the file.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch._ops import OpOverload

from torch_google.tpu import lowerings
from torch_google.tpu.program import mutation
from torch_google.tpu.program.decompositions import decompositions

FILE = Path(__file__).parent / "MISSING.md"
REASONS = Path(__file__).parent / "missing.json"
_COMPOSITES = (
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
    "AutogradPrivateUse1",
)
_TITLE = """\
# Operators that the CPU has and the device lacks

Written by `python -m tests.conformance.missing` from torch's dispatcher; `missing_test.py` checks this page.
An operator is listed if torch has a CPU kernel for it, and the device has no lowering, no kernel and no
decomposition. In-place and `out=` variants count as the operator itself.
`torch.tpu.cpu_fallback()` runs most of these on the CPU.

"""


def missing() -> list[str]:
    """Return the names of the missing operators. The device must have been initialized."""
    names = set()
    for name in torch._C._dispatch_get_all_op_names():
        op = _overload(name)
        if op is not None and _has(name, "CPU") and not _is_a_view(op):
            pure = _pure(op)
            if not _is_computed(name) and not (pure and _is_computed(pure.name())):
                names.add(pure.name() if pure else name)
    return sorted(names)


def page(names: list[str], reasons: list[dict[str, str]]) -> str:
    """Return the text of MISSING.md.

    Raises ValueError if no pattern in `reasons` matches an operator, or if a pattern is unused.
    """
    rows = []
    used = set()
    for name in names:
        matching = [i for i, each in enumerate(reasons) if fnmatchcase(name, each["operator"])]
        if not matching:
            raise ValueError(f"{name} has no lowering. Add one, or a reason to {REASONS.name}")
        used.add(matching[0])
        rows.append(f"| `{name.removeprefix('aten::')}` | {reasons[matching[0]]['reason']} |")
    unused = [each["operator"] for i, each in enumerate(reasons) if i not in used]
    if unused:
        raise ValueError(f"{REASONS.name}: {unused} match no missing operator. Remove them")
    return _TITLE + "\n".join(["| operator | why |", "|---|---|", *rows, ""])


def read_reasons() -> list[dict[str, str]]:
    """Read the reasons why operators are missing, each with a pattern for operator names.

    If several patterns match an operator, the first one applies.
    """
    reasons: list[dict[str, str]] = json.loads(REASONS.read_text(encoding="utf-8"))
    return reasons


def _overload(name: str) -> OpOverload | None:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    return op if name.startswith("aten::") and isinstance(op, OpOverload) else None


def _pure(op: OpOverload) -> OpOverload | None:
    try:
        return mutation(op).op
    except NotImplementedError:
        return None


def _is_computed(name: str) -> bool:
    op = _overload(name)
    return (
        name in lowerings.names()
        or op in decompositions()
        or any(_has(name, key) for key in _COMPOSITES)
        or name in _OURS
    )


def _is_a_view(op: OpOverload) -> bool:
    aliases = [result.alias_info for result in op._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _has(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


# The operators that torch_google implements in csrc, or in the composites for non-strided tensors,
# rather than with a lowering or an autograd composite.
_OURS = frozenset(
    f"aten::{name}"
    for name in (
        "_convert_indices_from_coo_to_csr",
        "_convert_indices_from_csr_to_coo",
        "_fused_sdp_choice",
        "_local_scalar_dense",
        "_nested_compute_contiguous_strides_offsets",
        "_nested_from_padded",
        "_nested_tensor_from_mask",
        "_to_sparse",
        "_to_sparse.sparse_dim",
        "_to_sparse_bsc",
        "_to_sparse_bsr",
        "_to_sparse_csc",
        "_to_sparse_csr",
        "_validate_compressed_sparse_indices",
        "equal",
        "is_set_to",
    )
)


if __name__ == "__main__":
    from torch_google.tpu import autoload

    autoload()
    torch.tpu.init()
    FILE.write_text(page(missing(), read_reasons()), encoding="utf-8")
