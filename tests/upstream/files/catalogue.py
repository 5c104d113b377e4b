# SPDX-License-Identifier: Apache-2.0
"""The names of the torch test files that this package's program contains, and their folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

# File names relative to torch's folder `test`. A torch release must pass the files in WHOLE.
WHOLE = (
    "test_autograd",
    "test_indexing",
    "test_jit",
    "test_modules",
    "test_nn",
    "test_optim",
    "test_serialization",
    "test_shape_ops",
    "test_torch",
    "test_type_promotion",
    "test_view_ops",
)
FURTHER = (
    "distributed/checkpoint/test_fsspec",
    "distributed/elastic/multiprocessing/api_test",
    "test_binary_ufuncs",
    "test_complex",
    "test_custom_ops",
    "test_dlpack",
    "test_foreach",
    "test_functionalization",
    "test_futures",
    "test_fx",
    "test_linalg",
    "test_multiprocessing",
    "test_namedtensor",
    "test_native_functions",
    "test_numpy_interop",
    "test_overrides",
    "test_python_dispatch",
    "test_reductions",
    "test_scatter_gather_ops",
    "test_segment_reductions",
    "test_sort_and_select",
    "test_tensor_creation_ops",
)
SETS = {"whole": WHOLE, "further": FURTHER, "full": WHOLE + FURTHER}


def chosen(names: list[str]) -> list[str]:
    """Return, without duplicates, the test files in `names`, which may contain files and sets.

    Raises a ValueError if a name is neither a file nor a set.
    """
    files: dict[str, None] = {}
    for name in names:
        plain = name.removesuffix(".py").removeprefix("test/")
        if plain not in SETS and plain not in SETS["full"]:
            raise ValueError(
                f"'{name}' is not a torch test file of this program. Name one of {', '.join(SETS)}, "
                f"or of {', '.join(sorted(SETS['full']))}"
            )
        files.update(dict.fromkeys(SETS.get(plain, (plain,))))
    return list(files)


def root() -> Path:
    """Return the folder of the test files. Raises a FileNotFoundError if this build lacks them."""
    spec = importlib.util.find_spec(WHOLE[0])
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"torch's test files are not in this program: no module {WHOLE[0]}. Build with "
            "--config=static"
        )
    return Path(spec.origin).parent
