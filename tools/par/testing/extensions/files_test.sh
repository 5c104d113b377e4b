#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that the files of a par_extensions target contain each linker input exactly once.
set -eu

one_file() { [ $# = 1 ] && [ -s "$1" ]; }

for stem in _native program; do
  matches=
  for file in "$@"; do
    case ${file##*/} in
      "$stem".*) matches="$matches $file" ;; # .o, .pic.o or .a
    esac
  done
  one_file $matches || { echo "$stem: expected one file that is not empty, found:$matches" >&2; exit 1; }
done
