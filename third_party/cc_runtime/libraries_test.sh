#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that each copied library loads without the others, and that versions.json records its
# release.
# usage: libraries_test.sh VERSIONS_JSON LIBRARY...
set -eu
versions=$1
shift
for library in "$@"; do
  name=${library##*/}
  LD_LIBRARY_PATH=${library%/*} /lib64/ld-linux-x86-64.so.2 --list "$library" > /dev/null || {
    echo "libraries_test: $library does not load" >&2
    exit 1
  }
  grep -q "\"$name\": \"${name%%.so*}[-.0-9a-z]*so" "$versions" || {
    echo "libraries_test: $versions has no release of $name" >&2
    exit 1
  }
done
[ $# = 2 ] || {
  echo "libraries_test: expected 2 libraries, found $#: $*" >&2
  exit 1
}
