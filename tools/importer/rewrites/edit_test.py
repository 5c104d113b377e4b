# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.importer.rewrites.edit import rewrite_file, rewritten_call
from tools.importer.rewrites.facts import Modules
from tools.importer.rewrites.reach import reach
from tools.importer.rewrites.torch_rules import PACKED_RESOURCES as RULE

_NEW = "torch._utils_internal.open_resource"


@pytest.mark.parametrize(
    ("call", "new"),
    [
        ("open(p)", f"{_NEW}(p)"),
        ('open(p, "r")', f"{_NEW}(p)"),
        ("open(p, mode='rt', encoding=\"UTF-8\")", f"{_NEW}(p)"),
        ('open(p, encoding="utf8")', f"{_NEW}(p)"),
        ("open( a / b )", f"{_NEW}( a / b )"),
        ("open(\n    p,  # which\n)", f"{_NEW}(\n    p,  # which\n)"),
        ("open(\r\n    join(\r\n        a, b)\r\n)", f"{_NEW}(\r\n    join(\r\n        a, b)\r\n)"),
        ("Path(p).open()", f"{_NEW}(Path(p))"),
        ("_read_file(p)", f"{_NEW}(p).read()"),
        ("Path(p).read_text()", f"{_NEW}(Path(p)).read()"),
        ("(a / b).read_text(encoding='utf-8')", f"{_NEW}((a / b)).read()"),
        ("Path(p)\n    .read_text()", f"{_NEW}(Path(p)).read()"),
    ],
)
def test_what_becomes_of_a_call(call: str, new: str) -> None:
    assert rewritten_call(RULE, call) == new


@pytest.mark.parametrize(
    "call",
    [
        'open(p, "rb")',
        'open(p, "w")',
        "open(p, mode)",
        'open(p, encoding="latin-1")',
        'open(p, errors="replace")',
        "open(p, newline='')",
        "open(*p)",
        "open(file=p)",
        "open(\r\n    a /\n    b)",
        "os.open(p)",
        "io.open(p)",
        'Path(p).open("wb")',
        "Path(p).read_bytes()",
        'Path(p).read_text("utf-16")',
    ],
)
def test_what_the_new_call_could_not_do_is_left(call: str) -> None:
    assert rewritten_call(RULE, call) is None


def _rewritten(data: bytes) -> bytes | None:
    modules = Modules()
    sites = reach({"a.py": data}, modules).sites(RULE.guarded)
    module = modules.get("a.py", data)
    assert module is not None
    pairs = [(site, rewritten_call(RULE, site.text) or "") for site in sites]
    return rewrite_file(data, module, pairs, RULE.target)


@pytest.mark.parametrize(
    ("head", "new"),
    [
        (b"import torch\n", b"import torch\n"),
        (b"import torch.nn\n", b"import torch.nn\n"),
        (b"import os, torch\n", b"import os, torch\n"),
        (b"import os\n", b"import torch._utils_internal\nimport os\n"),
        (b"import torch as t\n", b"import torch._utils_internal\nimport torch as t\n"),
        (
            b"import torch.nn as torch\n",
            b"import torch._utils_internal\nimport torch.nn as torch\n",
        ),
        (b"from torch import nn\n", b"import torch._utils_internal\nfrom torch import nn\n"),
        (b'"""Doc.\n"""\nimport os\n', b'"""Doc.\n"""\nimport torch._utils_internal\nimport os\n'),
        (
            b'"""Doc."""\r\nfrom __future__ import annotations\r\n\r\nimport os\r\n',
            b'"""Doc."""\r\nfrom __future__ import annotations\r\n\r\n'
            b"import torch._utils_internal\r\nimport os\r\n",
        ),
        (b'"""Doc."""\n', b'"""Doc."""\nimport torch._utils_internal\n'),
        (b"\xef\xbb\xbfimport os\n", b"\xef\xbb\xbfimport torch._utils_internal\nimport os\n"),
        (
            b"if TYPE_CHECKING:\n    import torch\n",
            b"import torch._utils_internal\nif TYPE_CHECKING:\n    import torch\n",
        ),
    ],
)
def test_the_module_is_imported_where_it_is_not(head: bytes, new: bytes) -> None:
    call = b"x = open(__file__)  # \xc3\xa9\n"
    assert _rewritten(head + call) == new + call.replace(b"open", _NEW.encode())


def test_several_calls_in_one_line() -> None:
    data = "import torch\nx = 'é', open(__file__), open(f(__file__)), open(x)\n".encode()
    new = f"import torch\nx = 'é', {_NEW}(__file__), {_NEW}(f(__file__)), open(x)\n".encode()
    assert _rewritten(data) == new


@pytest.mark.parametrize(
    "data",
    [
        b"import torch\ndef f(torch):\n    return open(__file__)\n",
        b"import torch\ndef f():\n    torch = 1\n    return open(__file__)\n",
        b"'Doc.'; open(__file__)",
    ],
    ids=["a parameter", "a variable", "no place for an import"],
)
def test_a_name_that_is_taken_is_refused(data: bytes) -> None:
    assert _rewritten(data) is None
