#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the pinned program that has the same name as this script, with the pinned C library. It uses no
# program or library of the machine. If the caller used a relative path, all paths are relative.
root=${0%/*}/../root
llvm=$root/usr/lib/llvm-19
name=${0##*/}
case $name in
  clang | clang++)
    program=$llvm/bin/clang
    # To compile and link in one call, clang starts itself with -cc1 as the first argument.
    # That call needs no further options.
    case ${1-} in
      -cc1*) ;;
      *)
        mode=gcc
        [ "$name" = clang ] || mode=g++
        set -- --start-no-unused-arguments --no-default-config --driver-mode=$mode \
          --target=x86_64-linux-gnu -no-canonical-prefixes "--sysroot=$root" \
          "--gcc-install-dir=$root/usr/lib/gcc/x86_64-linux-gnu/12" \
          -resource-dir "$llvm/lib/clang/19" -fuse-ld=lld --end-no-unused-arguments "$@"
        ;;
    esac
    ;;
  ld.lld) program=$llvm/bin/lld ;;
  *) program=$root/usr/bin/x86_64-linux-gnu-$name ;;
esac
libraries=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
exec "$root/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$libraries" \
  --argv0 "$0" "$program" "$@"
