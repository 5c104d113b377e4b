# SPDX-License-Identifier: Apache-2.0
"""A program that uses an extension module linked into its interpreter."""

from __future__ import annotations

import sys

from tools.oci.testing import _native  # type: ignore[attr-defined]  # the launcher has it


def main() -> None:
    assert _native.__spec__ is not None
    print(_native.answer(), _native.__spec__.origin, sys.argv[1:])


if __name__ == "__main__":
    main()
