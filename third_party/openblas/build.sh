#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds OpenBLAS's static library, without LAPACK's Fortran, in a scratch directory.
# usage: build.sh SOURCES MAKE CC AR OUT
set -eu

absolute() {
  case $1 in */*) case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac ;; *) echo "$1" ;; esac
}

sources=$(absolute "$1")
make=$(absolute "$2")
cc=$(absolute "$3")
ar=$(absolute "$4")
out=$(absolute "$5")
LC_ALL=C
export LC_ALL

work=$(mktemp -d "$PWD/openblas.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() {
  tail -n 30 "$log" >&2
  echo "third_party/openblas: $1 failed; the last lines of its output are above" >&2
  exit 1
}

cp -RL "$sources" "$work/src"
chmod -R u+w "$work/src"
cd "$work/src"

# Do not start threads in a constructor before main: exec_blas starts them when a call needs them.
memory=driver/others/memory.c
sed '/^void CONSTRUCTOR gotoblas_init/,/^}/ s/^ *if (blas_server_avail == 0) blas_thread_init();//' \
  "$memory" > "$work/memory.c"
cmp -s "$memory" "$work/memory.c" && {
  echo "third_party/openblas: $memory: gotoblas_init no longer starts threads; drop the edit in build.sh" >&2
  exit 1
}
cp "$work/memory.c" "$memory"

# TARGET=PRESCOTT: runs on every x86-64 processor. RANLIB=true: ar has already written the index.
# NOFORTRAN=1: also sets C_LAPACK, but the target `libs` does not build that. NO_EXPRECISION=1:
# omits the routines for long double, which are not used. THREAD_TIMEOUT=16: a thread polls for 2^16
# cycles before it sleeps. With upstream's 2^28, it takes the processor from torch's own threads for
# 90 ms after each product.
"$make" -j2 libs CC="$cc" HOSTCC="$cc" AR="$ar" RANLIB=true \
  TARGET=PRESCOTT DYNAMIC_ARCH=1 DYNAMIC_LIST="HASWELL SKYLAKEX" \
  NOFORTRAN=1 NO_LAPACKE=1 NO_SHARED=1 NO_AFFINITY=1 NO_WARMUP=1 NO_PARALLEL_MAKE=1 NO_EXPRECISION=1 \
  USE_THREAD=1 USE_OPENMP=0 NUM_THREADS=64 COMMON_OPT="-O2 -w -DTHREAD_TIMEOUT=16" > "$log" 2>&1 || fail "make libs"

cp libopenblas*-r*.a "$out"
