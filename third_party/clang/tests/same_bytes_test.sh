#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that builds in two folders produce the same bytes, even with debug information, and that
# they need no program on PATH.
# usage: same_bytes_test.sh CLANG++ SOURCE...
set -eu
toolchain=$PWD/${1%/bin/*}
shift
for folder in one a/longer/two; do
  mkdir -p "$TEST_TMPDIR/$folder"
  ln -s "$toolchain" "$TEST_TMPDIR/$folder/toolchain"
  cp "$@" "$TEST_TMPDIR/$folder"
  (
    cd "$TEST_TMPDIR/$folder"
    PATH=/nonexistent
    # Flags of the toolchain (clang.BUILD), then flags for vector.cpp.
    set -- -ffile-compilation-dir=. -Wno-builtin-macro-redefined '-D__DATE__=""' '-D__TIME__=""' \
      -g -O2 -mavx2 -mfma
    for source in *.cpp; do
      toolchain/bin/clang++ "$@" -c "$source" -o "$source.o"
    done
    toolchain/bin/clang++ ./*.o -o program
    ./program
  )
done
for file in "$TEST_TMPDIR"/one/*.o "$TEST_TMPDIR/one/program"; do
  cmp "$file" "$TEST_TMPDIR/a/longer/two/${file##*/}" || {
    echo "same_bytes_test: ${file##*/} depends on the folder of its build" >&2
    exit 1
  }
done
