# SPDX-License-Identifier: Apache-2.0
"""torch's rewrite rules: changes that single-file programs require in every matching call.

Exemptions and expected match counts are in patches/torch/rewrites.txt, which known_calls.py reads.
"""

from __future__ import annotations

import libcst.matchers as m

from tools.importer.rewrites.rule import PATH, Operation, Rule

_ARGUMENT = m.Arg(value=m.SaveMatchedNode(m.DoNotCare(), PATH), keyword=None, star="")
_UTF_8 = m.MatchIfTrue(lambda text: text.strip("\"'").lower() in ("utf-8", "utf8"))
_ENCODING = m.Arg(keyword=m.Name("encoding"), value=m.SimpleString(value=_UTF_8))
_TEXT = m.SimpleString(value=m.MatchIfTrue(lambda text: text.strip("\"'") in ("r", "rt")))
_MODE = m.Arg(keyword=None, value=_TEXT) | m.Arg(keyword=m.Name("mode"), value=_TEXT)
_AS_TEXT = m.ZeroOrMore(_MODE | _ENCODING)

_OUTSIDE = {
    "torch/_utils_internal*.py": "the seam: it answers where files are",
    "torch/testing/*": "upstream's test harness reads its repository, which no installation has",
    "torch/utils/data/datapipes/gen_pyi.py": "runs when upstream is built",
    "torch/utils/hipify/*": "rewrites a developer's sources on disk",
}

PACKED_RESOURCES = Rule(
    name="packed-resources",
    about="Read text files next to the sources through the loader",
    scope=("torch/*.py",),
    outside=_OUTSIDE,
    guarded=frozenset(("open", "read_text", "read_bytes", "_read_file", "read_file")),
    target="torch._utils_internal.open_resource",
    operations=(
        Operation("open", m.Call(func=m.Name("open"), args=[_ARGUMENT, _AS_TEXT])),
        Operation(
            "Path.open",
            m.Call(
                func=m.Attribute(value=m.SaveMatchedNode(m.DoNotCare(), PATH), attr=m.Name("open")),
                args=[_AS_TEXT],
            ),
        ),
        Operation(
            "_read_file", m.Call(func=m.Name("_read_file"), args=[_ARGUMENT]), suffix=".read()"
        ),
        Operation(
            "read_text",
            m.Call(
                func=m.Attribute(
                    value=m.SaveMatchedNode(m.DoNotCare(), PATH), attr=m.Name("read_text")
                ),
                args=[_AS_TEXT],
            ),
            suffix=".read()",
        ),
    ),
    header={
        "Id": "Z02, Z12, Z13, Z20",
        "Owner": "packaging",
        "Reason": "build",
        "Upstream": "None yet; remove when the tests pass without it",
        "Extension-point-considered": (
            "None: `open` on paths below `__file__`. The result of the seam's `get_file_path_2` must "
            "be a real file for `open`, and these are read-only texts"
        ),
        "Test": ",\n  ".join(
            f"third_party/torch/tests/packaging_patches_test.py::{name}"
            for name in (
                "test_aoti_compiles_and_runs",
                "test_aoti_packages_sources",
                "test_benchmark_templates_are_read",
                "test_graph_break_finds_its_registry",
                "test_kernel_template_is_read",
                "test_package_with_a_mocked_module",
            )
        ),
        "Budget": "12",
    },
)

MODULE_LISTING = Rule(
    name="module-listing",
    about="List the modules of a package through the import system, not its directory",
    scope=("torch/*.py",),
    outside=_OUTSIDE,
    guarded=frozenset(("listdir", "scandir", "walk", "fwalk", "glob", "iglob", "iterdir", "rglob")),
)

RULES = (PACKED_RESOURCES, MODULE_LISTING)
