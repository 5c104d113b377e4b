# SPDX-License-Identifier: Apache-2.0
"""The training example's static PAR, and a function that runs it as a Python interpreter."""

from __future__ import annotations

import os
import pathlib

from tests.robustness import subject

PAR = subject.packed("examples/train.par")


def interpreter(
    cache: pathlib.Path, *arguments: str | os.PathLike[str], **environment: str
) -> subject.Outcome:
    """Run the PAR as a Python interpreter that unpacks its files under `cache`."""
    return subject.run(
        [PAR, *arguments],
        environment={
            "PAR_CACHE_DIR": str(cache),
            "PAR_INTERPRETER": "1",
            "PATH": os.environ["PATH"],
            **environment,
        },
    )
