# SPDX-License-Identifier: Apache-2.0
"""Compare the engine with `git merge-file` and `git am -3` on random histories of a source file.

Every line has a hidden identity, so the correct result of each merge is known (made_histories.py).
Merges are skipped if some edit is not visible in the texts (`Story.is_told`).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tools.importer.engine.line_identity import Story, merged
from tools.importer.engine.made_histories import make_history
from tools.importer.engine.real_git import RealGit
from tools.par.testing.budget import examples, is_full

# The engine may stop at no more than this fraction of the merges that git gets right.
_MOST_STOPS = 0.08
# `git am` spawns six processes, so short runs compare only some merges with it.
_AM_EVERY = 1 if is_full() else 12


class _Verdict(enum.Enum):
    RIGHT = enum.auto()
    STOPS = enum.auto()
    WRONG = enum.auto()


def _stories(seed: int) -> Iterator[Story]:
    for merge in make_history(seed):
        story = merge.story
        if story.is_told and story.theirs != story.base:
            yield story


def _verdict(result: bytes | None, story: Story) -> _Verdict:
    if result is None:
        return _Verdict.STOPS
    right = story.truth is not None and result == b"".join(story.truth)
    return _Verdict.RIGHT if right else _Verdict.WRONG


def _engine(story: Story) -> bytes | None:
    result = merged(story)
    if result.outcome.stops:
        return None
    assert result.after is not None
    return result.after.data


def _texts(story: Story) -> tuple[bytes, bytes, bytes]:
    return b"".join(story.base), b"".join(story.ours), b"".join(story.theirs)


@pytest.fixture(name="git", scope="module")
def _git(tmp_path_factory: pytest.TempPathFactory) -> RealGit:
    return RealGit(tmp_path_factory.mktemp("git"))


def test_it_is_wrong_less_often_than_git_and_rarely_stops_where_git_is_right(
    git: RealGit, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each run generates the same histories, so these figures are exact, not estimates."""
    merge_file = Counter[tuple[_Verdict, _Verdict]]()
    am = Counter[tuple[_Verdict, _Verdict]]()
    stories = [story for seed in range(examples(2400, part=24)) for story in _stories(seed)]
    for number, story in enumerate(stories):
        ours = _verdict(_engine(story), story)
        merge_file[ours, _verdict(git.merge_file(*_texts(story)), story)] += 1
        if number % _AM_EVERY == 0:
            am[ours, _verdict(git.am(*_texts(story)), story)] += 1
    for name, counts in (("git merge-file", merge_file), ("git am -3", am)):
        figures = _figures(name, counts)
        with capfd.disabled():
            print(f"\n{figures}")
        assert not counts[_Verdict.WRONG, _Verdict.STOPS], figures
        wrong, gits = _wrong(counts)
        assert wrong <= gits, figures
        right = _gits_right(counts)
        assert right > 5, figures
        if right > 100:
            assert counts[_Verdict.STOPS, _Verdict.RIGHT] <= right * _MOST_STOPS, figures


def _wrong(counts: Counter[tuple[_Verdict, _Verdict]]) -> tuple[int, int]:
    """Return how many merges the engine gets silently wrong, and how many git does."""
    wrong = _Verdict.WRONG
    return (
        sum(count for (ours, _), count in counts.items() if ours is wrong),
        sum(count for (_, gits), count in counts.items() if gits is wrong),
    )


def _gits_right(counts: Counter[tuple[_Verdict, _Verdict]]) -> int:
    return sum(count for (_, gits), count in counts.items() if gits is _Verdict.RIGHT)


def _figures(name: str, counts: Counter[tuple[_Verdict, _Verdict]]) -> str:
    wrong, gits = _wrong(counts)
    stops, right = counts[_Verdict.STOPS, _Verdict.RIGHT], _gits_right(counts)
    return (
        f"{name}, {counts.total()} merges: silently wrong are {wrong} of the engine's"
        f" ({counts[_Verdict.WRONG, _Verdict.STOPS]} where git stops) and {gits} of git's;"
        f" the engine stops at {stops} of the {right} that git gets right"
        f" ({stops / max(right, 1):.1%})"
    )


@settings(max_examples=examples(4000, part=80), deadline=None)
@given(seed=st.integers(2400, 2**48))
@example(seed=5949473)  # overlapping removals, next to blank lines
@example(seed=220912443800548)  # upstream copied the block that the patch changes
def test_it_is_never_wrong_where_git_stops(git: RealGit, seed: int) -> None:
    for story in _stories(seed):
        if _verdict(_engine(story), story) is _Verdict.WRONG:
            assert git.merge_file(*_texts(story)) is not None
            assert git.am(*_texts(story)) is not None


def test_the_histories_have_every_kind_of_merge() -> None:
    """Some patches land, some conflict with upstream, and all files have repeated lines."""
    stories = [story for seed in range(30) for story in _stories(seed)]
    assert any(story.landed for story in stories)
    assert any(story.truth is None for story in stories)
    assert any(story.truth is not None and not story.landed for story in stories)
    assert all(len({*story.base}) < len(story.base) for story in stories)
