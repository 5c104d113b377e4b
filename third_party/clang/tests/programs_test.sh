#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the toolchain's programs need, name and do.
# usage: programs_test.sh OBJDUMP ALONE SHARED
set -eu
objdump=$1
alone=$2
shared=$3
fail() {
  echo "programs_test: $*" >&2
  exit 1
}

said=$("$alone")
[ "$said" = "8 on redacted at redacted" ] || fail "$alone said '$said'"
said=$("$shared")
[ "$said" = "thrown, passed, caught" ] || fail "$shared said '$said'"

needs=$("$objdump" -p "$alone" | sed -n 's/^ *NEEDED *//p' | grep -vx -e 'libc\.so\.6' -e 'libm\.so\.6' \
  -e 'ld-linux-x86-64\.so\.2' || :)
[ -z "$needs" ] || fail "$alone needs more than libc and libm:" $needs

# The oldest glibc that it can start on is the sysroot's, as README.md says.
floor=$("$objdump" -p "$alone" | sed -n 's/.* GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1)
newest=$(printf '%s\n' "$floor" 2.36 | sort -V | tail -n 1)
[ -n "$floor" ] && [ "$newest" = 2.36 ] || fail "$alone needs glibc '$floor', not 2.36 or older"

# /lib64, the loader's place, is the same on every machine.
for program in "$alone" "$shared"; do
  paths=$(grep -aoE '/(bazel|etc|home|mnt|opt|root|run|srv|tmp|usr|var)[/a-zA-Z0-9_.~+-]*' "$program" || :)
  [ -z "$paths" ] || fail "$program names paths of a machine:" $paths
done
