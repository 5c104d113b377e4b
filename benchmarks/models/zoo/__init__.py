# SPDX-License-Identifier: Apache-2.0
"""The table of models. Importing it loads no library except torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest

from benchmarks.models.model import Model
from benchmarks.models.zoo import graphs, images, language, plain


def table(models: Iterable[Model]) -> Mapping[str, Model]:
    """Return the models by key. Raises ValueError if two have the same key."""
    rows: dict[str, Model] = {}
    for model in models:
        if model.key in rows:
            raise ValueError(f"benchmarks/models/zoo: {model.key} is in the table twice")
        rows[model.key] = model
    return rows


_LISTS = (plain.MODELS, graphs.MODELS, language.MODELS, images.MODELS)

MODELS = table(
    # Take one model from each list in turn, so that an interrupted run covers all libraries.
    model
    for several in zip_longest(*_LISTS)
    for model in several
    if model is not None
)
