# SPDX-License-Identifier: Apache-2.0
"""Test bucket keys that no local file could have: directory markers and empty components."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from torch_google import gfile
from torch_google.gfile.testing.cloud_servers import missing, new_bucket
from torch_google.gfile.testing.object_stores import Objects


class _Bucket:
    """A bucket on an S3 server or in memory, which tests can access without gfile."""

    def __init__(self, kind: str) -> None:
        self._store: Any = None
        if kind == "objects":
            self._store = Objects()
            gfile.register_scheme("keys", self._store, overwrite=True)
            self.root = "keys://bucket"
            return
        self.root = new_bucket("s3")

    def put(self, keys: dict[str, bytes]) -> None:
        for key, content in keys.items():
            if self._store:
                self._store.kept[f"bucket/{key}"] = content
            else:
                self._call("put_object", Key=key, Body=content)

    def keys(self) -> dict[str, bytes]:
        if self._store:
            contents: dict[str, bytes] = self._store.kept
            return {key.removeprefix("bucket/"): content for key, content in contents.items()}
        listed = [row["Key"] for row in self._call("list_objects_v2").get("Contents", [])]
        return {key: self._read(key) for key in listed}

    def _call(self, verb: str, **arguments: Any) -> Any:
        import fsspec

        bucket = self.root.removeprefix("s3://")
        return fsspec.filesystem("s3").call_s3(verb, Bucket=bucket, **arguments)

    def _read(self, key: str) -> bytes:
        from fsspec.asyn import get_loop, sync

        content: bytes = sync(get_loop(), self._call("get_object", Key=key)["Body"].read)
        return content


@pytest.fixture(name="bucket", params=["objects", "s3"])
def _bucket(request: pytest.FixtureRequest) -> _Bucket:
    if request.param == "s3" and missing("s3"):
        pytest.skip(f"not installed: {', '.join(missing('s3'))}")
    return _Bucket(request.param)


def test_keys_that_differ_by_an_empty_component_stay_apart(bucket: _Bucket) -> None:
    bucket.put({"top/f": b"1", "top//f": b"2", "top///f": b"3", "top/g//h": b"4"})
    gfile.Rename(f"{bucket.root}/top", f"{bucket.root}/new")
    moved = {"new/f": b"1", "new//f": b"2", "new///f": b"3", "new/g//h": b"4"}
    assert bucket.keys() == moved
    gfile.DeleteRecursively(f"{bucket.root}/new/g")
    del moved["new/g//h"]
    assert bucket.keys() == moved


def test_a_marker_of_a_directory_goes_with_it(bucket: _Bucket) -> None:
    others = {"top/d2": b"2", "top/d2/": b"", "top/d/../f": b"3"}
    bucket.put({"top/d/": b"", "top/d/e/": b"", "top/d/f": b"1", "top/dd/": b"", **others})
    gfile.Rename(f"{bucket.root}/top/d", f"{bucket.root}/top/x")
    del others["top/d/../f"]
    assert bucket.keys() == {"top/x/f": b"1", "top/x/../f": b"3", "top/dd/": b"", **others}
    bucket.put({"top/x/": b""})
    gfile.DeleteRecursively(f"{bucket.root}/top/x")
    assert bucket.keys() == {"top/dd/": b"", **others}


def test_a_marker_with_content_is_not_moved(bucket: _Bucket) -> None:
    """Clients cannot copy the marker `top/d/`; they would copy the file `top/d` instead."""
    keys = {"top/d": b"file", "top/d/": b"content", "top/f": b"1"}
    bucket.put(keys)
    with pytest.raises(OSError, match="its name ends with a slash") as raised:
        gfile.Rename(f"{bucket.root}/top", f"{bucket.root}/new")
    assert raised.value.errno == errno.EINVAL
    assert bucket.keys() == keys


def test_a_file_that_has_the_name_of_a_directory_is_removed(bucket: _Bucket) -> None:
    bucket.put(
        {"top/d": b"file", "top/d/": b"", "top/e": b"file", "top/e/f": b"1", "topmost": b"2"}
    )
    gfile.DeleteRecursively(f"{bucket.root}/top")
    assert bucket.keys() == {"topmost": b"2"}
