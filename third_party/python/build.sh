#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds CPython as a static library and as a plain interpreter, in a scratch directory.
# usage: build.sh SOURCES MAKE CC AR SETUP_LOCAL OUT_LIB OUT_PYTHON OUT_PYCONFIG_H OUT_VARIABLES STAGE...
# Each STAGE is FILE=PLACE: a dependency's header or library and its place below deps/.
set -eu

absolute() {
  case $1 in */*) case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac ;; *) echo "$1" ;; esac
}

# A tool of the machine keeps its path. That of one which the build brings would be written into what
# is built, so it gets a name on PATH.
tool() {
  case $2 in
    /*) echo "$2" ;;
    */*)
      printf '#!/bin/sh\nexec "%s" "$@"\n' "$PWD/$2" > "$work/tools/$1"
      chmod +x "$work/tools/$1"
      echo "$1"
      ;;
    *) echo "$2" ;;
  esac
}

sources=$1
make=$(absolute "$2")
cc=$3
ar=$4
setup_local=$5
out_lib=$(absolute "$6")
out_python=$(absolute "$7")
out_pyconfig=$(absolute "$8")
out_variables=$(absolute "$9")
shift 9

work=$(mktemp -d "$PWD/cpython.XXXXXX")
log=$work/log
fail() {
  tail -n 40 "$log" >&2
  echo "third_party/python: $1 failed; the last lines of its output are above" >&2
  exit 1
}

mkdir "$work/tools"
PATH=$work/tools:$PATH
CC=$(tool cc "$cc")
AR=$(tool ar "$ar")

# Everything is below one directory and named relative to it, so no path of this machine gets in.
cp -RL "$sources" "$work/src"
chmod -R u+w "$work/src"
# One time for all: make must not think that what the release generated is older than its source.
find "$work/src" -type f -exec touch -d @1675814400 {} +
for stage in "$@"; do
  place=$work/src/deps/${stage#*=}
  mkdir -p "${place%/*}"
  if [ -d "${stage%%=*}" ]; then cp -RL "${stage%%=*}/." "$place"; else cp -L "${stage%%=*}" "$place"; fi
done
cp "$setup_local" "$work/src/Modules/Setup.local"
cd "$work/src"

# The date of the pinned release: __DATE__ is part of `sys.version`.
SOURCE_DATE_EPOCH=1675814400
PYTHONHASHSEED=0
PYTHONDONTWRITEBYTECODE=1
LC_ALL=C
export PATH CC AR SOURCE_DATE_EPOCH PYTHONHASHSEED PYTHONDONTWRITEBYTECODE LC_ALL

# clang 19 merges the interpreter's jumps from one bytecode to the next into a few, unless its limit for
# that is raised: half as much time again for Python code. Older ones have no such limit.
jumps="-mllvm -tail-dup-pred-size=5000"
"$CC" $jumps -x c -c /dev/null -o "$work/probe.o" 2> /dev/null || jumps=

# The prefix exists nowhere: a program that lost its library must fail, not take up the host's.
# The ac_cv_ lines are libraries that this build leaves out whether or not the host has them.
./configure --prefix=/nonexistent --disable-shared --disable-test-modules --without-ensurepip \
  --with-readline=no --with-dbmliborder= --with-openssl=deps \
  PKG_CONFIG=false PYTHON_FOR_REGEN=false \
  OPT="-fwrapv -O3" CFLAGS_NODIST="-fno-pie -w $jumps" \
  CPPFLAGS=-Ideps/include LDFLAGS="-Ldeps/lib -no-pie" LIBS="-lm -lpthread" ARFLAGS=rcsD \
  ac_cv_header_bluetooth_bluetooth_h=no ac_cv_header_bluetooth_h=no ac_cv_header_crypt_h=no \
  ac_cv_header_curses_h=no ac_cv_header_libintl_h=no ac_cv_header_ncurses_h=no \
  ac_cv_header_uuid_h=no ac_cv_header_uuid_uuid_h=no ac_cv_lib_crypt_crypt_r=no \
  ac_cv_header_term_h=no ac_cv_mvwdelch_is_expression=no ac_cv_window_has_flags=no \
  ac_cv_lib_curses_filter=no ac_cv_lib_curses_has_key=no ac_cv_lib_curses_immedok=no \
  ac_cv_lib_curses_is_pad=no ac_cv_lib_curses_is_term_resized=no \
  ac_cv_lib_curses_resize_term=no ac_cv_lib_curses_resizeterm=no ac_cv_lib_curses_syncok=no \
  ac_cv_lib_curses_typeahead=no ac_cv_lib_curses_use_env=no ac_cv_lib_curses_wchgat=no \
  > "$log" 2>&1 || fail configure
"$make" -j2 python pybuilddir.txt > "$log" 2>&1 || fail make

"$make" -s libpython3.11.a > "$log" 2>&1 || fail "make libpython3.11.a"

# expat and libmpdec are libraries of their own in CPython's Makefile: here they are one with it.
# Appended, not inserted (r, and q with s): libmpdec has a context.o too.
"$AR" qcD libpython3.11.a Modules/expat/*.o Modules/_decimal/libmpdec/*.o
"$AR" sD libpython3.11.a

cp libpython3.11.a "$out_lib"
cp python "$out_python"
cp pyconfig.h "$out_pyconfig"
sed "s|$work/src|/nonexistent/src|g" "$(cat pybuilddir.txt)"/_sysconfigdata_*.py > "$out_variables"

# Only now: a failed build stays to be looked at (bazel build --sandbox_debug).
rm -rf "$work"
