# SPDX-License-Identifier: Apache-2.0
"""torch's config modules and justknobs functions call hooks in torch._seam.

By default, the hooks behave like upstream.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._seam import configs
from torch.utils import _config_module

_FAKE = "torch.testing._internal.fake_config_module"


@pytest.fixture(autouse=True)
def _upstream_again() -> Iterator[None]:
    before = (
        configs.installed._implementation,
        configs.knob._implementation,
        configs.knob_number._implementation,
    )
    for hook in (configs.installed, configs.knob, configs.knob_number):
        hook.restore()
    yield
    (
        configs.installed._implementation,
        configs.knob._implementation,
        configs.knob_number._implementation,
    ) = before
    sys.modules.pop(_FAKE, None)


def _fresh() -> Any:
    sys.modules.pop(_FAKE, None)
    return importlib.import_module(_FAKE)


def test_the_seam_sets_an_option_before_anybody_reads_it() -> None:
    def installed(module: ModuleType) -> None:
        if module.__name__ == _FAKE:
            module._config["e_int"].env_value_default = 7
            module._config["nested.e_bool"].env_value_default = False

    configs.installed.install(installed)
    config = _fresh()
    values: list[tuple[int, bool]] = []
    thread = threading.Thread(target=lambda: values.append((config.e_int, config.nested.e_bool)))
    thread.start()
    thread.join()
    assert values == [(7, False)]
    assert config.save_config_portable()["e_int"] == 7


def test_the_hooks_are_upstreams_until_replaced() -> None:
    config = _fresh()
    assert (config.e_int, config.e_jk, config.e_jk_false) == (1, True, False)
    assert torch._utils_internal.justknobs_check("any") is True
    assert torch._utils_internal.justknobs_check("any", False) is False
    assert torch._utils_internal.justknobs_getval_int("any") == 0
    assert torch._seam.configs is configs


def test_a_knob_flips_an_entry_with_that_knob() -> None:
    configs.knob.install(lambda name, default: not default if name == "does_not_exist" else default)
    config = _fresh()
    assert (config.e_jk, config.e_jk_false) == (False, True)
    config.e_jk = True  # As in upstream, a program's setting overrides a knob.
    assert config.e_jk is True
    assert _config_module.justknobs_check is torch._utils_internal.justknobs_check


def test_a_knob_has_a_number() -> None:
    configs.knob_number.install(lambda name: len(name))
    assert torch._utils_internal.justknobs_getval_int("four") == 4
