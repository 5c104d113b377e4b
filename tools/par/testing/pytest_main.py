# SPDX-License-Identifier: Apache-2.0
"""Run pytest for a par_test, either from its runfiles tree or from a packed PAR."""

from __future__ import annotations

import functools
import importlib.util
import os
import resource
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from _pytest.junitxml import xml_key

from tools.par.testing import budget, forked_files
from tools.par.testing.selection import Selection

# Environment variables that affect which tests run. They are recorded as properties of the results.
_RECORDED = ("PYTORCH_TEST_FBCODE",)


def run(
    main_file: str,
    main_name: str,
    tests: list[str],
    *,
    forked: bool = False,
    warm_imports: Sequence[str] = (),
    sample: int = 1,
    in_full_run: bool = True,
) -> int:
    """Run `tests` (paths under the workspace) and return pytest's exit status.

    main_file: the __file__ of the generated main module, which is also under the workspace.
    forked: whether each file runs in its own process, forked from a parent that has imported
      `warm_imports`. Each shard then gets some of the files instead of some of the test cases.
    sample: without `--config=full`, run one in this many cases of each test function.
    in_full_run: whether the target has the tag `full` or `budget`, so that CI also runs it in full.
    """
    if is_idle_shard():
        return 0
    spec = sys.modules[main_name].__spec__
    assert spec is not None
    depth = spec.name.count(".") + 1
    root = Path(*Path(main_file).parts[:-depth])
    scratch = Path(os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(prefix="par_test."))
    if not root.is_dir():
        loader = spec.loader
        for test in tests:
            target = scratch / "packed_tests" / test
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(loader.get_data(str(root / test)))  # type: ignore[union-attr]
        root = scratch / "packed_tests"
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(scratch / "hypothesis"))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    _set_up_hypothesis(root)
    files = [str(root / test) for test in tests if _collected(test)]
    selection = Selection(sample, in_full_run=in_full_run)
    if not forked:
        return int(pytest.main(_options(root) + files, plugins=[selection, _Sharding(), _Record()]))
    results = os.environ.get("XML_OUTPUT_FILE")
    return forked_files.run(
        files,
        functools.partial(_one_file, root, selection),
        scratch=scratch,
        results=Path(results) if results else None,
        warm_imports=warm_imports,
    )


def _one_file(root: Path, selection: Selection, file: str, folder: Path) -> int:
    """Run this process's only test file. `folder` is for its temporary files and results."""
    # This shard must run the whole file. Remove these variables, because absltest programs that
    # the tests start would otherwise shard their own test cases again.
    for name in ("TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX", "TEST_SHARD_STATUS_FILE"):
        os.environ.pop(name, None)
    os.environ["TEST_TMPDIR"] = str(folder)
    os.environ["XML_OUTPUT_FILE"] = str(folder / "results.xml")
    return int(pytest.main([*_options(root), file], plugins=[selection, _Record()]))


def _set_up_hypothesis(root: Path) -> None:
    """Disable Hypothesis's deadline, because machines may be busy, and limit its examples.

    To find constants for its examples, Hypothesis parses every module outside site-packages. These
    include our wheels and the standard library, and parsing torch and JAX takes half a minute in
    each process. Therefore, let Hypothesis parse only the workspace's packages.
    """
    if importlib.util.find_spec("hypothesis") is None:
        return
    from hypothesis import HealthCheck, settings
    from hypothesis.internal.conjecture import providers

    is_parsed = providers.is_local_module_file
    library = Path(os.__file__).parent

    def is_of_workspace(path: str) -> bool:
        file = Path(path)
        return file.is_relative_to(root) and not file.is_relative_to(library) and is_parsed(path)

    providers.is_local_module_file = is_of_workspace

    settings.register_profile(
        "par_test",
        deadline=None,
        max_examples=budget.examples(100),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("par_test")


def _collected(test: str) -> bool:
    return os.path.basename(test).endswith("_test.py")


def _options(root: Path) -> list[str]:
    options = [
        "--import-mode=importlib",
        f"--rootdir={root}",
        "--override-ini=consider_namespace_packages=true",
        "--strict-markers",
        "-p",
        "no:cacheprovider",
        "-ra",
        "--durations=5",
        "--durations-min=1",
    ]
    if "TEST_TMPDIR" in os.environ:
        options.append(f"--basetemp={os.environ['TEST_TMPDIR']}/pytest")
    if "XML_OUTPUT_FILE" in os.environ:
        options.append(f"--junitxml={os.environ['XML_OUTPUT_FILE']}")
    if os.environ.get("TESTBRIDGE_TEST_ONLY"):
        options.append(f"-k={os.environ['TESTBRIDGE_TEST_ONLY']}")
    return options + sys.argv[1:]


def is_idle_shard() -> bool:
    """Return whether this shard must not run any tests because `--test_filter` is set.

    A filter may leave a shard without tests, which counts as a failure. Therefore, the first shard
    runs every test that the filter selects, and fails if the filter selects none. This function
    removes the sharding variables from the environment, so that the first shard runs all selected
    tests instead of only its share.
    """
    if not os.environ.get("TESTBRIDGE_TEST_ONLY") or "TEST_TOTAL_SHARDS" not in os.environ:
        return False
    if status_file := os.environ.pop("TEST_SHARD_STATUS_FILE", None):
        Path(status_file).touch()
    del os.environ["TEST_TOTAL_SHARDS"]
    return int(os.environ.pop("TEST_SHARD_INDEX")) > 0


class _Sharding:
    """A pytest plugin for a rule's `shard_count`: each of n shards keeps every n-th test case."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        status_file = os.environ.get("TEST_SHARD_STATUS_FILE")
        if status_file:
            Path(status_file).touch()
        total = int(os.environ.get("TEST_TOTAL_SHARDS") or 1)
        items[:] = items[int(os.environ.get("TEST_SHARD_INDEX") or 0) :: total]


class _Record:
    """A pytest plugin that records CPU time, environment variables and each case's device.

    A case's CPU time includes its setup and its finished child processes, but not its teardown.
    """

    def __init__(self) -> None:
        self._start = 0.0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        results = session.config.stash.get(xml_key, None)
        for name in _RECORDED:
            if results is not None and name in os.environ:
                results.add_global_property(name, os.environ[name])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        results = session.config.stash.get(xml_key, None)
        if results is not None:
            results.add_global_property("cpu_seconds", f"{_cpu_seconds():.2f}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._start = _cpu_seconds()
        return (yield)

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        item.user_properties.append(("cpu_seconds", f"{_cpu_seconds() - self._start:.2f}"))
        # torch's device-specific test classes do not have their final device_type before setup.
        device = getattr(getattr(item, "cls", None), "device_type", None)
        if isinstance(device, str):
            item.user_properties.append(("device", device))


def _cpu_seconds() -> float:
    """Return the CPU time in seconds of this process and its finished children."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
