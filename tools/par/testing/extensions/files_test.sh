#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The files of a par_extensions are what a program is linked from, in one form each.
set -eu
found=$(for file in "$@"; do
  [ -s "$file" ] || { echo "$file: not there" >&2; exit 1; }
  name=${file##*/}
  echo "${name%%.*}" # without .o, .pic.o or .a
done | sort)
for wanted in _native program; do
  [ "$(echo "$found" | grep -cx "$wanted")" = 1 ] || { echo "$wanted once, not: $found" >&2; exit 1; }
done
