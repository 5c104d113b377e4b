# SPDX-License-Identifier: Apache-2.0
"""Test git origins: local ones, and remote ones on a git server."""

from __future__ import annotations

import functools
import http.server
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import GitSnapshot, open_pin, resolve
from tools.importer.origins.origin_fixtures import Lines, commit_files, git, make_project
from tools.importer.project import Project
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob
from tools.par.testing.ports import reserved_port

_FILES: dict[str, bytes | None] = {
    "torch/x.py": b"one\r\n",
    "torch/binary": bytes(range(256)),
    "torch/no newline": b"x",
    "torch/\u00e9.py": b"",
}


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A hook's variables and the user's configuration must have no effect.
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    (tmp_path / "config").write_text("[core]\n\tquotePath = true\n[log]\n\tshowSignature = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    return make_project(tmp_path / "workspace", git={"url": str(tmp_path / "upstream")})


@pytest.fixture(name="upstream")
def _upstream(tmp_path: Path) -> Path:
    repository = tmp_path / "upstream"
    commit_files(repository, _FILES, "v1.0.0")
    (repository / "run").write_bytes(b"#!")
    (repository / "run").chmod(0o755)
    (repository / "link").symlink_to("torch/x.py")
    commit_files(repository, {"torch/x.py": b"two\n"}, "v1.1.0")
    return repository


def test_a_tag(project: Project, upstream: Path) -> None:
    tree = resolve(project, Lines(), tag="v1.0.0", origin="git")
    assert set(tree.paths()) == set(_FILES)
    for path, data in _FILES.items():
        assert data is not None
        assert tree.read(path) == Blob(data)
    assert tree.label == "v1.0.0"
    assert tree.commit == git(upstream, "rev-parse", "v1.0.0^{commit}")
    assert not tree.natives
    assert tree.read("torch") is None
    assert tree.carries("test/gone.py")
    assert tree.pin == {
        "kind": "git",
        "tag": "v1.0.0",
        "url": str(upstream),
        "ref": "refs/tags/v1.0.0",
        "commit": tree.commit,
    }


@pytest.mark.parametrize("address", ["git+file://{}", "file://{}", "git+{}", "{}", "{}/.git"])
def test_refs_by_every_address(project: Project, upstream: Path, address: str) -> None:
    head = git(upstream, "rev-parse", "HEAD")
    for ref in ("main", "v1.1.0", head, head[:8], "HEAD", "refs/heads/main"):
        tree = resolve(project, Lines(), ref=ref, origin=address.format(upstream))
        assert (tree.commit, tree.label) == (head, head[:12])
        assert tree.read("run") == Blob(b"#!", EXECUTABLE)
        assert tree.read("link") == Blob(b"torch/x.py", SYMLINK)


def test_the_whole_history_of_a_repository_on_this_disk(project: Project, upstream: Path) -> None:
    tree = resolve(project, Lines(), ref="main", origin="git")
    assert isinstance(tree, GitSnapshot)
    listing = subprocess.run(
        ["git", f"--git-dir={tree.repository}", "rev-list", str(tree.commit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listing.stdout.split()) == 2


def test_the_pin_outlives_the_tag(project: Project, upstream: Path) -> None:
    tree = resolve(project, Lines(), tag="v1.0.0", origin="git")
    git(upstream, "tag", "--delete", "v1.0.0")
    git(upstream, "tag", "v1.0.0", "v1.1.0")
    again = open_pin(project, Lines(), tree.pin)
    assert again.read("torch/x.py") == Blob(b"one\r\n")
    shutil.rmtree(project.workspace.parent / "cache")
    assert open_pin(project, Lines(), tree.pin).read("torch/x.py") == Blob(b"one\r\n")


def test_a_pinned_commit_that_is_gone_names_both(project: Project, upstream: Path) -> None:
    tree = resolve(project, Lines(), tag="v1.0.0", origin="git")
    shutil.rmtree(project.workspace.parent / "cache")
    shutil.rmtree(upstream)
    other = commit_files(upstream, {"other": b""}, "v1.0.0")
    with pytest.raises(UserError, match=f"refs/tags/v1.0.0 is {other}, the pin says {tree.commit}"):
        open_pin(project, Lines(), tree.pin)


def test_submodules_are_absent(project: Project, upstream: Path) -> None:
    head = git(upstream, "rev-parse", "HEAD")
    git(upstream, "update-index", "--add", "--cacheinfo", f"160000,{head},third_party/fmt")
    git(upstream, "commit", "--quiet", "--message=module")
    tree = resolve(project, Lines(), ref="main", origin="git")
    assert "third_party/fmt" not in tree.paths()
    assert not tree.carries("third_party/fmt/CMakeLists.txt")
    assert tree.carries("third_party/fmtx")


def test_a_link_that_leaves_the_tree_is_refused(project: Project, upstream: Path) -> None:
    (upstream / "out").symlink_to("../../etc/passwd")
    git(upstream, "add", "out")
    git(upstream, "commit", "--quiet", "--message=out")
    tree = resolve(project, Lines(), ref="main", origin="git")
    with pytest.raises(UserError, match="the link 'out' leads out of the tree"):
        tree.read("out")


def test_an_unknown_tag_has_near_misses(project: Project, upstream: Path) -> None:
    with pytest.raises(
        UserError, match=r"no v1\.1\.1 among the 3 refs of .*mean v1\.1\.0, v1\.0\.0\?"
    ):
        resolve(project, Lines(), tag="v1.1.1", origin="git")


@pytest.mark.parametrize("commit", ["0123abcd", "0123456789" * 4])
def test_an_unknown_commit(project: Project, upstream: Path, commit: str) -> None:
    with pytest.raises(UserError, match=f"no {commit} of torch: git: no .*{commit}"):
        resolve(project, Lines(), ref=commit, origin="git")


def test_another_users_repository(
    project: Project, upstream: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert resolve(project, Lines(), ref="main", origin="git").read("torch/x.py") == Blob(b"two\n")


def test_locks_of_a_killed_git_are_no_obstacle(project: Project, upstream: Path) -> None:
    resolve(project, Lines(), tag="v1.0.0", origin="git")
    (repository,) = (project.workspace.parent / "cache").rglob("*.git")
    (repository / "packed-refs.lock").touch()
    head = git(upstream, "rev-parse", "HEAD")
    (repository / "refs" / "pinned" / f"{head}.lock").touch()
    assert resolve(project, Lines(), ref="main", origin="git").commit == head


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ("git+ext::sh -c id", "is no address of a git repository"),
        ("git+ftp://example.com/x", "'ftp' addresses are not supported"),
        ("git+https://me:secret@example.com/x.git", "has a password in it"),
        ("git+relative/path", "is no address of a git repository"),
        ("git+--upload-pack=id", "is no address of a git repository"),
        ("git+file:///nowhere", "/nowhere: not a git repository"),
    ],
)
def test_addresses_that_are_refused(project: Project, origin: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolve(project, Lines(), ref="main", origin=origin)
    assert "secret" not in str(caught.value)


@pytest.fixture(name="server")
def _server(upstream: Path) -> Iterator[str]:
    """Start a git server for all repositories next to `upstream`, and yield its URL."""
    with reserved_port() as port:
        daemon = subprocess.Popen(
            ["git", "daemon", "--export-all", "--listen=127.0.0.1", f"--port={port}",
             f"--base-path={upstream.parent}", "--reuseaddr"],
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": ""},
            start_new_session=True,
        )  # fmt: skip
        try:
            while not _is_open(port):
                assert daemon.poll() is None
                time.sleep(0.05)
            yield f"git://127.0.0.1:{port}"
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
            daemon.wait()


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_across_a_network_only_the_commit_comes(
    project: Project, upstream: Path, server: str
) -> None:
    for tag, data in (("v1.1.0", b"two\n"), ("v1.0.0", b"one\r\n")):
        tree = resolve(project, Lines(), tag=tag, origin=f"{server}/upstream")
        assert tree.read("torch/x.py") == Blob(data)
        assert isinstance(tree, GitSnapshot)
        depth = git(tree.repository, f"--git-dir={tree.repository}", "rev-list", str(tree.commit))
        assert depth == tree.commit
    upstream.rename(upstream.with_name("moved"))
    assert open_pin(project, Lines(), tree.pin).read("torch/x.py") == Blob(b"one\r\n")


def test_processes_at_once(project: Project, server: str) -> None:
    def fetch(tag: str) -> None:
        assert resolve(project, Lines(), tag=tag, origin=f"{server}/upstream").read("torch/x.py")

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=fetch, args=(tag,)) for tag in ("v1.0.0", "v1.1.0") * 2]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4


def test_a_plain_web_server_gives_whole_histories(project: Project, upstream: Path) -> None:
    git(upstream, "update-server-info")
    handler = functools.partial(_Quiet, directory=str(upstream.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{web.server_port}/upstream/.git"
            tree = resolve(project, Lines(), tag="v1.0.0", origin=f"git+{url}")
        finally:
            web.shutdown()
            thread.join()
    assert tree.read("torch/x.py") == Blob(b"one\r\n")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Discard log messages."""


def test_no_network(project: Project) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        resolve(project, Lines(), ref="main", origin="git+http://127.0.0.1:9/x.git")
    message = str(caught.value)
    assert "http://127.0.0.1:9/x.git: git ls-remote exited 128: fatal: unable to access" in message
    assert "\n" not in message
