#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests programs built by the toolchain: their output, libraries and embedded paths.
# usage: programs_test.sh OBJDUMP ALONE SHARED
set -eu
objdump=$1
alone=$2
shared=$3
fail() {
  echo "programs_test: $*" >&2
  exit 1
}

output=$("$alone")
[ "$output" = "8 on redacted at redacted" ] || fail "$alone printed '$output'"
output=$("$shared")
[ "$output" = "thrown, passed, caught" ] || fail "$shared printed '$output'"

needs=$("$objdump" -p "$alone" | sed -n 's/^ *NEEDED *//p' | grep -vx -e 'libc\.so\.6' -e 'libm\.so\.6' \
  -e 'ld-linux-x86-64\.so\.2' || :)
[ -z "$needs" ] || fail "$alone needs more than libc and libm:" $needs

# README.md promises that programs run with the sysroot's glibc.
floor=$("$objdump" -p "$alone" | sed -n 's/.* GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1)
newest=$(printf '%s\n' "$floor" 2.36 | sort -V | tail -n 1)
[ -n "$floor" ] && [ "$newest" = 2.36 ] || fail "$alone needs glibc '$floor', not 2.36 or older"

# Programs may contain the loader's path, in /lib64, because it is the same on every machine.
for program in "$alone" "$shared"; do
  paths=$(grep -aoE '/(bazel|etc|home|mnt|opt|root|run|srv|tmp|usr|var)[/a-zA-Z0-9_.~+-]*' "$program" || :)
  [ -z "$paths" ] || fail "$program names paths of a machine:" $paths
done
