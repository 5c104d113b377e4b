#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: same_bytes.sh LIBRARY SEPARATE ...
# Checks that each LIBRARY, built with compile.pl, has the same bytes as SEPARATE, built without it.
set -eu
while [ $# -gt 0 ]; do
  cmp "$1" "$2" || {
    echo "$1: compile.pl changes an object: see its options --alone and --leave, and its function \`definitions\`" >&2
    exit 1
  }
  shift 2
done
