# SPDX-License-Identifier: Apache-2.0
"""From a seed, generate three releases of an upstream project, and patches to the first one.

Files resemble PyTorch's: they are 1 to 100 kB in size, mostly small. A few of their lines occur in
many files; the others are unique. Each later release changes every twentieth file and all patched
ones: it inserts lines near the top and replaces one line, which is next to a patch in about a third
of the patched files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

_COMMON = ("\n", "\n", "    return out\n", "    else:\n", "        )\n", "    try:\n", "\n")
_PATCHED_EVERY_THIRD = 3


@dataclass(frozen=True)
class Upstream:
    """The releases of an upstream project, as maps from path to text, and patches to the first one.

    Each item of `steps` is the name of a patch and the new text of the files that it changes. Each
    patch applies to the result of the previous one.
    """

    releases: tuple[dict[str, str], ...]
    steps: tuple[tuple[str, dict[str, str]], ...]


def make_upstream(*, files: int, patches: int, seed: int = 1) -> Upstream:
    """Generate three releases of `files` files, and `patches` patches to the first release."""
    chance = random.Random(seed)
    first = {f"pkg{n % 97}/part{n % 13}/module_{n}.py": _text(chance, n) for n in range(files)}
    # Patch only files that are long enough for several hunks.
    paths = sorted(path for path, text in first.items() if len(text) > 5000)
    # There are three files for every four patches, so that several patches change the same file.
    touched = chance.sample(paths, max(1, patches * 3 // 4))
    now, places, steps = dict(first), dict[str, list[str]](), []
    for number in range(patches):
        names = {touched[number % len(touched)], *chance.sample(touched, int(number % 5 == 0))}
        changed = {}
        for name in sorted(names):
            now[name] = changed[name] = _patched(chance, now[name], number, places, name)
        steps.append((f"subject-{number:03}", changed))
    releases = [first]
    for number in (2, 3):
        releases.append(dict(_next(chance, releases[-1], number, set(touched), places)))
    return Upstream(tuple(releases), tuple(steps))


def make_long_file(*, lines: int, patches: int, seed: int = 1) -> Upstream:
    """Generate two releases of a file with `lines` lines, and patches with one hunk each.

    The second release adds a hundred lines, and changes a line next to every third patch.
    """
    chance = random.Random(seed)
    path, first = "generated/table.py", _lines(chance, lines)
    now, steps, beside = list(first), [], []
    for number in range(patches):
        index = (2 * number + 1) * lines // (2 * patches)
        beside.append(now[index - 2])
        now[index : index + number % 2] = [f"    patched_{number} = here\n"]
        steps.append((f"subject-{number:03}", {path: "".join(now)}))
    new = list(first)
    for number, line in enumerate(beside):
        if number % _PATCHED_EVERY_THIRD == 0 and new.count(line) == 1:
            new[new.index(line)] = f"    release_{number} = beside the patch\n"
    for number in range(100):
        new.insert(chance.randrange(len(new)), f"    release_more_{number} = new\n")
    return Upstream(({path: "".join(first)}, {path: "".join(new)}), tuple(steps))


def _lines(chance: random.Random, count: int) -> list[str]:
    return [
        chance.choice(_COMMON)
        if index % 4 == 0
        else f"    value_{index} = operator_{chance.randrange(10**6)}(self)\n"
        for index in range(count)
    ]


def _text(chance: random.Random, number: int) -> str:
    size = min(max(int(chance.lognormvariate(8.45, 1.05)), 1000), 100_000)
    out, length, index = [], 0, 0
    while length < size:
        index += 1
        if index % 4 == 0:
            line = chance.choice(_COMMON)
        else:
            line = f"    value_{index} = operator_{chance.randrange(10**6)}(self, name_{number})\n"
        out.append(line)
        length += len(line)
    return "".join(out)


def _patched(
    chance: random.Random, text: str, number: int, places: dict[str, list[str]], name: str
) -> str:
    """Return `text` with one to three hunks applied.

    For each hunk, append one of the lines just above it to `places[name]`. A later release may
    change that line.
    """
    lines = text.splitlines(keepends=True)
    for hunk in range(1 + number % 3):
        for _ in range(50):
            index = chance.randrange(6, max(len(lines) - 6, 7))
            around = lines[max(index - 6, 0) : index + 6]
            if not any("patched" in line for line in around):
                break
        else:
            continue
        unique = [line for line in lines[index - 3 : index - 1] if len(line) > 20]
        places.setdefault(name, []).extend(unique[:1])
        lines[index : index + number % 2] = [f"    patched_{number}_{hunk} = here\n"] * 1
    return "".join(lines)


def _next(
    chance: random.Random,
    release: dict[str, str],
    number: int,
    touched: set[str],
    places: dict[str, list[str]],
) -> Iterator[tuple[str, str]]:
    for index, (path, text) in enumerate(release.items()):
        if path not in touched and index % 20:
            yield path, text
            continue
        lines = text.splitlines(keepends=True)
        beside = places.get(path, [])
        if beside and index % _PATCHED_EVERY_THIRD == 0 and beside[0] in lines:
            lines[lines.index(beside[0])] = f"    release_{number} = beside the patch\n"
        elif len(lines) > 20:
            # This change cannot conflict, because no patch changes the last six lines.
            lines[-2] = f"    release_{number} = at the end\n"
        lines[1:1] = [f"    release_{number}_{n} = new\n" for n in range(1 + chance.randrange(4))]
        yield path, "".join(lines)
