# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
import textwrap

import pytest

from tools.importer.rewrites.facts import Modules
from tools.importer.rewrites.module import Module
from tools.importer.rewrites.reach import reach

_READS = ("open", "read_text", "read_bytes", "listdir", "glob")

# Source files in which a path computed from `__file__` reaches a call. Each key says how.
_REACHED = {
    "at once": "open(__file__)",
    "joined": 'open(os.path.join(os.path.dirname(__file__), "x"))',
    "a Path": '(Path(__file__).resolve().parents[1] / "x").read_text()',
    "Path.open": '(Path(__file__).parent / "x").open()',
    "by name": 'here = Path(__file__).parent\nplace = here / "x"\nopen(place)',
    "used above its assignment": "def f():\n    return open(PLACE)\nPLACE = __file__",
    "another module's file": "open(mod.__file__)",
    "in an f-string": 'open(f"{os.path.dirname(__file__)}/x")',
    "added up": 'open(os.path.dirname(__file__) + "/x")',
    "a tuple": 'a, b = os.path.split(__file__)\nopen(a + "/x")',
    "a loop": "for x in [__file__]:\n    open(x)",
    "a comprehension": "[open(x) for x in (__file__, 1)]",
    "what was appended": "places = []\nplaces.append(__file__)\nopen(places[0])",
    "a walrus": "if p := __file__:\n    open(p)",
    "a condition": "open(__file__ if x else y)",
    "through a cast": "open(cast(str, __file__))",
    "through a function that nobody knows": 'open(locate("", __file__))',
    "a parameter": "def f(p):\n    return open(p)\nf(__file__)",
    "a keyword": "def f(*, p):\n    return open(p)\nf(p=__file__)",
    "a default": "def f(p=__file__):\n    return open(p)",
    "a default of the same name": "p = __file__\ndef f(p=p):\n    return open(p)",
    "a keyword's default of the same name": "p = __file__\ndef f(*, p=p):\n    return open(p)",
    "a lambda's default of the same name": "p = __file__\nf = lambda p=p: open(p)",
    "partial": "def f(name, at):\n    return open(at / name)\ng = partial(f, at=Path(__file__))",
    "partial, by place": "def f(at, n):\n    return open(at / n)\ng = partial(f, Path(__file__))",
    "a method": "class A:\n    def f(self, p):\n        open(p)\n    def g(self):\n        self.f(__file__)",
    "a constructor": "class A:\n    def __init__(self, p):\n        open(p)\nA(__file__)",
    "an attribute": "class A:\n    def f(self):\n        self.p = __file__\n    def g(self):\n        open(self.p)",
    "a class's own": "class A:\n    P = __file__\n    def g(self):\n        open(self.P)",
    "what a function returns": "def f():\n    return os.path.dirname(__file__)\nopen(f() + '/x')",
    "what inspect says": "open(inspect.getfile(f))",
    "a global": "P = ''\ndef f():\n    global P\n    P = __file__\nopen(P)",
    "a listing": "os.listdir(os.path.dirname(__file__))",
    "what a listing found": "for f in os.listdir(os.path.dirname(__file__)):\n    open(f)",
}

_NOT_REACHED = {
    "another path": "open(path)",
    "the file's name alone": "open(os.path.basename(__file__))",
    "what was read": "with open(path) as f:\n    x = f.read()\nlog(__file__)",
    "what stood in it": "for line in source(__file__).read():\n    open(line)",
    "a name of another function": "def f():\n    p = __file__\ndef g(p):\n    open(p)",
    "to write": 'open(__file__, "w")',
    "to write, by name": 'open(__file__, mode="ab")',
    "a comparison": "x = __file__ == y\nopen(x)",
    "an object made of it": "tool = Compiler(__file__)\nopen(tool.output())",
    "in a text": 'text = "open(__file__)"',
    "an assignment to it": 'class A:\n    __file__ = "x"\nopen(name)',
}


def _lines(**files: str) -> list[str]:
    data = {
        name.replace("__", "/") + ".py": textwrap.dedent(text).encode()
        for name, text in files.items()
    }
    reached = reach(data, Modules())
    assert reached.unread == ()
    return [f"{site.path}:{site.line}" for site in reached.sites(_READS)]


@pytest.mark.parametrize("text", _REACHED.values(), ids=_REACHED)
def test_a_path_from_the_file_is_found(text: str) -> None:
    assert _lines(a=text)


@pytest.mark.parametrize("text", _NOT_REACHED.values(), ids=_NOT_REACHED)
def test_other_paths_are_not(text: str) -> None:
    assert _lines(a=text) == []


def test_the_line_and_function_are_told() -> None:
    text = b"import os\n\nclass A:\n    def f(self):\n        return open(\n            __file__)\n"
    (site,) = reach({"a.py": text}, Modules()).sites(_READS)
    assert (site.line, site.function, site.callee) == (5, "A.f", "open")
    assert text[site.start : site.end] == b"open(\n            __file__)"
    assert str(site) == "a.py:5: open( __file__)"


@pytest.mark.parametrize(
    "user",
    [
        "from .paths import HERE\nopen(HERE / 'x')",
        "from pkg.paths import HERE as here\nopen(here)",
        "from . import paths\nopen(paths.HERE)",
        "import pkg.paths\nopen(pkg.paths.HERE)",
        "import pkg.paths as p\nopen(p.HERE)",
        "from .paths import here\nopen(here())",
        "from . import paths\nopen(paths.here())",
    ],
)
def test_other_files_hand_it_on(user: str) -> None:
    paths = "HERE = Path(__file__).parent\ndef here():\n    return HERE\n"
    assert _lines(pkg__paths=paths, pkg__user=user) == ["pkg/user.py:2"]
    assert _lines(pkg__paths=paths, pkg__user=user.replace("paths", "other")) == []


def test_a_package_hands_it_on_too() -> None:
    files = {
        "pkg/sub/__init__.py": b"HERE = __file__\n",
        "pkg/user.py": b"from pkg.sub import HERE\nopen(HERE)\n",
    }
    assert [site.path for site in reach(files, Modules()).sites(_READS)] == ["pkg/user.py"]


def test_a_function_of_another_file_reads_it() -> None:
    reader = "def load(name, at):\n    with open(at / name) as f:\n        return f.read()\n"
    for call in (
        "from ..reader import load\nload('x', Path(__file__))",
        "from ..reader import load\nread = partial(load, at=Path(__file__))",
        "from pkg import reader\nreader.load('x', at=Path(__file__))",
    ):
        assert _lines(pkg__reader=reader, pkg__sub__user=call) == ["pkg/reader.py:2"]
    assert _lines(pkg__reader=reader, pkg__sub__user="from ..reader import load\nload(1, 2)") == []


def test_a_wanderer_between_three_files() -> None:
    assert _lines(
        a="from b import through\nthrough(__file__)",
        b="from c import last\ndef through(p):\n    last(p)",
        c="def last(q):\n    return open(q)",
    ) == ["c.py:2"]


@pytest.mark.parametrize(
    "data",
    [
        b"# -*- coding: latin-1 -*-\nopen(__file__ + '\xe9')\n",
        b"open(__file__ + '\xe9')\n",
        b"open(__file__\n",
        b"x = 1\x00; open(__file__)\n",
    ],
    ids=["latin-1", "no encoding said", "no Python", "null"],
)
def test_what_cannot_be_read_is_told(data: bytes) -> None:
    reached = reach({"a.py": data, "b.py": b"open(__file__)\n"}, Modules())
    assert reached.unread == ("a.py",)
    assert [site.path for site in reached.sites(_READS)] == ["b.py"]


@pytest.mark.parametrize(
    "head", [b"# -*- coding: utf-8 -*-\n", b"#!/bin/python\n# coding=UTF-8\n", b"\xef\xbb\xbf"]
)
def test_utf_8_by_any_name_is_read(head: bytes) -> None:
    data = head + "x = 'é'; open(__file__)\n".encode()
    reached = reach({"a.py": data}, Modules())
    (site,) = reached.sites(_READS)
    assert data[site.start : site.end] == b"open(__file__)"
    assert reached.unread == ()


def test_files_that_name_no_source_are_not_parsed() -> None:
    files = {f"{n}.py": b"open(path)\n" for n in range(50)} | {"a.py": b"open(__file__)\n"}
    modules = Modules()
    reach(files, modules)
    assert modules.count == 1


def test_a_second_look_parses_only_what_changed() -> None:
    users = {f"user{n}.py": b"from paths import HERE\nopen(HERE)\n" for n in range(3)}
    files = {"paths.py": b"HERE = __file__\n", **users}
    modules = Modules()
    first = reach(files, modules).sites(_READS)
    assert (len(first), modules.count) == (3, 4)
    assert reach(dict(files), modules).sites(_READS) == first
    assert modules.count == 4
    assert (
        len(reach({**files, "user1.py": b"from paths import HERE\n"}, modules).sites(_READS)) == 2
    )
    assert modules.count == 5


def test_facts_are_those_of_what_was_handed_over() -> None:
    user = {"user.py": b"from paths import HERE\nopen(HERE)\n"}
    modules = Modules()
    assert len(reach({**user, "paths.py": b"HERE = __file__\n"}, modules).sites(_READS)) == 1
    assert reach({**user, "paths.py": b"HERE = 1\n"}, modules).sites(_READS) == []


def test_trees_of_many_files_are_not_held() -> None:
    text = b"x = open(__file__)  # " + b"." * 300_000
    files = {f"{n}.py": text + b"%d\n" % n for n in range(12)}
    modules = Modules()
    assert len(reach(files, modules).sites(_READS)) == 12
    held = [each for each in gc.get_objects() if isinstance(each, Module)]
    assert 0 < len(held) < 6
