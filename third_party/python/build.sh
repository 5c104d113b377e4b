#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds CPython in a scratch directory, as a static library and as a plain interpreter. The two
# steps are configure and make.
# usage: build.sh configure SOURCES CC AR SETUP_LOCAL ANSWERS OUT_CONFIGURED OUT_INCLUDE STAGE...
#        build.sh make SOURCES CC AR MAKE CONFIGURED COMPILE OUT_LIB OUT_PYTHON OUT_VARIABLES STAGE...
# CONFIGURED is a directory of the files that configure generates, OUT_INCLUDE one for the headers.
# ANSWERS is a configure cache for this compiler, or `none`.
# COMPILE is the path of compile.pl (//third_party/make), or `none` to compile each file with make.
# Each STAGE is FILE=PLACE: a header or library of a dependency, and its path under deps/.
set -eu

absolute() {
  case $1 in */*) case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac ;; *) echo "$1" ;; esac
}

# Prints the command for a tool. A host tool keeps its path. A tool that the build
# provides gets a name on PATH instead, because the output would contain its path.
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

step=$1
sources=$2
cc=$3
ar=$4
shift 4

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

# Use the date of the pinned release, because `sys.version` contains __DATE__.
SOURCE_DATE_EPOCH=1675814400
PYTHONHASHSEED=0
PYTHONDONTWRITEBYTECODE=1
LC_ALL=C
export PATH CC AR SOURCE_DATE_EPOCH PYTHONHASHSEED PYTHONDONTWRITEBYTECODE LC_ALL

# Gives all files the same modification time. Otherwise make may regenerate files because they look
# older than their sources.
one_time() {
  find "$work/src" -type f -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
}

# Keep all files under one directory and use relative paths, so that the output contains no path of
# this machine.
cp -RL "$sources" "$work/src"
chmod -R u+w "$work/src"

stage() {
  for stage in "$@"; do
    place=$work/src/deps/${stage#*=}
    mkdir -p "${place%/*}"
    file=${stage%%=*}
    if [ -d "$file" ]; then cp -RL "$file/." "$place"; else cp -L "$file" "$place"; fi
  done
}

# Prints the versions that configure's results depend on: CPython, the compiler and the C library.
asked() {
  release=$(sed -n 's/^#define PY_VERSION[ \t]*"\(.*\)"/\1/p' "$work/src/Include/patchlevel.h")
  libc=$(printf '#include <features.h>\nglibc __GLIBC__ __GLIBC_MINOR__\n' | "$CC" -E -P -x c - | tail -n 1)
  echo "CPython $release, $("$CC" --version | head -n 1), $libc"
}

# Fails if the configure cache is for another version of CPython, the compiler or the C library.
check_answers() {
  found=$(asked)
  grep -qxF "# $found" "$1" || {
    echo "third_party/python: config.cache has no line '# $found', so its answers may be wrong." \
      "Replace them as third_party/python/README.md says" >&2
    exit 1
  }
}

configure() {
  cp "$1" "$work/src/Modules/Setup.local"
  [ "$2" = none ] || {
    check_answers "$2"
    cp "$2" "$work/config.cache"
  }
  out_configured=$(absolute "$3")
  out_include=$(absolute "$4")
  shift 4
  stage "$@"
  mkdir -p "$work/src/deps/include/openssl"
  : > "$work/src/deps/include/openssl/ssl.h"
  one_time
  cd "$work/src"

  # By default, clang 19 merges the jumps at the ends of the interpreter's bytecode handlers, which
  # makes Python code 1.5 times as slow. Raise its limit for duplicating jumps. Older clangs have no
  # such limit.
  jumps="-mllvm -tail-dup-pred-size=5000"
  "$CC" $jumps -x c -c /dev/null -o "$work/probe.o" 2> /dev/null || jumps=

  # The prefix does not exist, so that a program without its standard library fails instead of using
  # the host's. Most ac_cv_ settings exclude a library even if the host has it. Those for OpenSSL
  # replace checks, because OpenSSL is built in parallel and configure sees only an empty header.
  ./configure --cache-file=../config.cache --prefix=/nonexistent \
    --disable-shared --disable-test-modules --without-ensurepip \
    --with-readline=no --with-dbmliborder= --with-openssl=deps \
    PKG_CONFIG=false PYTHON_FOR_REGEN=false \
    OPT="-fwrapv -O3" CFLAGS_NODIST="-fno-pie -w $jumps" \
    CPPFLAGS=-Ideps/include LDFLAGS="-Ldeps/lib -no-pie" LIBS="-lm -lpthread" ARFLAGS=rcsD \
    ac_cv_working_openssl_ssl=yes ac_cv_working_openssl_hashlib=yes \
    ac_cv_header_bluetooth_bluetooth_h=no ac_cv_header_bluetooth_h=no ac_cv_header_crypt_h=no \
    ac_cv_header_curses_h=no ac_cv_header_libintl_h=no ac_cv_header_ncurses_h=no \
    ac_cv_header_uuid_h=no ac_cv_header_uuid_uuid_h=no ac_cv_lib_crypt_crypt_r=no \
    ac_cv_header_term_h=no ac_cv_mvwdelch_is_expression=no ac_cv_window_has_flags=no \
    ac_cv_lib_curses_filter=no ac_cv_lib_curses_has_key=no ac_cv_lib_curses_immedok=no \
    ac_cv_lib_curses_is_pad=no ac_cv_lib_curses_is_term_resized=no \
    ac_cv_lib_curses_resize_term=no ac_cv_lib_curses_resizeterm=no ac_cv_lib_curses_syncok=no \
    ac_cv_lib_curses_typeahead=no ac_cv_lib_curses_use_env=no ac_cv_lib_curses_wchgat=no \
    > "$log" 2>&1 || fail configure

  rm -rf config.log conftest* confdefs.h deps
  mkdir -p "$out_configured" "$out_include"
  # Replace the scratch directory's path, which is different in the next step and on other machines.
  find . -type f -newermt "@$SOURCE_DATE_EPOCH" | while read -r file; do
    mkdir -p "$out_configured/${file%/*}"
    sed "s|$work/src|@SOURCES@|g" "$file" > "$out_configured/$file"
  done
  cp Modules/Setup.local "$out_configured/Modules/"
  # Omit results about the machine's tools from the cache. Also omit gcc_asm_for_x64: one check of
  # configure reads it before another check sets it, so a cached value would change the result.
  grep -E '^(ac|ax|py)_cv_' "$work/config.cache" |
    grep -vE '^(ac_cv_(build|env|gcc_asm_for_x64|host|path|prog_(PYTHON_FOR_REGEN|TRUE|ac_ct))|py_cv_module)' |
    sort > "$out_configured/config.cache"
  cp -R Include/. "$out_include/"
  cp pyconfig.h "$out_include/"
}

build() {
  make=$(absolute "$1")
  configured=$2
  compile=$(absolute "$3")
  out_lib=$(absolute "$4")
  out_python=$(absolute "$5")
  out_variables=$(absolute "$6")
  shift 6
  cp -RL "$configured/." "$work/src"
  chmod -R u+w "$work/src"
  (cd "$configured" && find -L . -type f) | while read -r file; do
    sed -i "s|@SOURCES@|$work/src|g" "$work/src/$file"
  done
  chmod +x "$work/src/config.status"
  stage "$@"
  one_time
  cd "$work/src"

  # Use a precompiled Python.h only for files that include it directly: other files may include
  # headers before it that define macros. Files that match --leave include generated files, so make
  # compiles them.
  [ "${compile##*/}" = none ] || perl "$compile" --header='"Python.h"' \
    --alone='(?s)\A(?!.*# *include "Python[.]h")' \
    --leave='freeze|frozen|getpath|_bootstrap_python' \
    "$make" python libpython3.11.a > "$log" 2>&1 || fail compile.pl

  "$make" -j2 python pybuilddir.txt > "$log" 2>&1 || fail make

  "$make" -s libpython3.11.a > "$log" 2>&1 || fail "make libpython3.11.a"

  # CPython's Makefile builds expat and libmpdec as separate libraries. Append their objects to the
  # archive, with q instead of r, because libmpdec and CPython both have a context.o.
  "$AR" qcD libpython3.11.a Modules/expat/*.o Modules/_decimal/libmpdec/*.o
  "$AR" sD libpython3.11.a

  cp libpython3.11.a "$out_lib"
  cp python "$out_python"
  sed "s|$work/src|/nonexistent/src|g" "$(cat pybuilddir.txt)"/_sysconfigdata_*.py > "$out_variables"
}

case $step in
  configure) configure "$@" ;;
  make) build "$@" ;;
esac

# Delete the scratch directory only on success, so that a failed build can be inspected (with
# bazel build --sandbox_debug).
rm -rf "$work"
