# SPDX-License-Identifier: Apache-2.0
"""The training PAR of the static build, and how its interpreter is asked."""

from __future__ import annotations

import os
import pathlib

from tests.robustness import subject

PAR = subject.packed("examples/train.par")


def python(code: str, cache: pathlib.Path, **environment: str) -> subject.Outcome:
    """Run `code` in the interpreter of the PAR, which unpacks below `cache`."""
    return subject.run(
        [PAR, "-c", code],
        environment={
            "PAR_CACHE_DIR": str(cache),
            "PAR_INTERPRETER": "1",
            "PATH": os.environ["PATH"],
            **environment,
        },
    )
