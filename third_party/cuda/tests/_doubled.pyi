# SPDX-License-Identifier: Apache-2.0
# The extension module built from doubled_module.cpp.

from collections.abc import Sequence

def doubled(values: Sequence[float], /) -> list[float]: ...
