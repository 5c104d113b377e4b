#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The files of a par_extensions are what a program is linked from, in one form each.
set -eu

one_file() { [ $# = 1 ] && [ -s "$1" ]; }

for wanted in _native program; do
  found=
  for file in "$@"; do
    case ${file##*/} in
      "$wanted".*) found="$found $file" ;; # .o, .pic.o or .a
    esac
  done
  one_file $found || { echo "$wanted: expected one file that is not empty, found:$found" >&2; exit 1; }
done
