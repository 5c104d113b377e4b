#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that the error for unavailable packages is one line that includes the next step.
# usage: unavailable_test.sh MESSAGE_FILE
set -eu
[ "$(wc -l < "$1")" = 1 ] || {
  echo "unavailable_test: not one line: $(cat "$1")" >&2
  exit 1
}
for part in "third_party/clang: no mirror has pool/a.deb and 1 more" "(404)" "Set DEBIAN_MIRROR=" \
  "with --config=hostcc"; do
  grep -qF -- "$part" "$1" || {
    echo "unavailable_test: no '$part' in: $(cat "$1")" >&2
    exit 1
  }
done
