#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds OpenSSL's two static libraries in a scratch directory.
# usage: build.sh SOURCES MAKE CC AR CRYPTO_OUT SSL_OUT INCLUDE_OUT COMPILE
# COMPILE is the path of compile.pl, or `none` to compile each file with make.
set -eu

absolute() {
  case $1 in */*) case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac ;; *) echo "$1" ;; esac
}

# Prints the command for a tool. A host tool keeps its path. A tool that the build
# provides gets a name on PATH instead, because OpenSSL would write its path into the library.
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

sources=$(absolute "$1")
make=$(absolute "$2")
cc=$3
ar=$4
crypto=$(absolute "$5")
ssl=$(absolute "$6")
include=$(absolute "$7")
compile=$(absolute "$8")
RANLIB=true
# OpenSSL writes the build's date into the library, so use a fixed date.
SOURCE_DATE_EPOCH=0
LC_ALL=C
export RANLIB SOURCE_DATE_EPOCH LC_ALL

work=$(mktemp -d "$PWD/openssl.XXXXXX")
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() {
  tail -n 30 "$log" >&2
  echo "third_party/openssl: $1 failed; the last lines of its output are above" >&2
  exit 1
}

command -v perl > /dev/null || {
  echo "third_party/openssl: no perl on PATH; OpenSSL's Configure needs it (git brings it on Debian)" >&2
  exit 1
}

mkdir "$work/tools"
PATH=$work/tools:$PATH
CC=$(tool cc "$cc")
AR=$(tool ar "$ar")
export PATH CC AR

# Build a copy of the tree with relative paths, so that the library contains no absolute path.
cp -RL "$sources" "$work/src"
chmod -R u+w "$work/src"
cd "$work/src"

# Include a TLS client and server with current algorithms, and the digests that hashlib offers. Omit
# everything that loads code at run time, and protocols that Python's ssl module cannot use.
# --openssldir is the host's folder of certificates, from which the library only reads. No file is
# compiled twice, so skip makedepend, which takes four processes per file.
# -O1 compiles faster than -O2. A TLS handshake, TLS data and hashlib's digests take the same time
# with both, because the algorithms are in assembly.
perl ./Configure linux-x86_64 --prefix=/usr --openssldir=/etc/ssl \
  no-shared no-tests no-dso no-module no-engine no-legacy no-afalgeng no-async no-autoload-config \
  no-capieng no-padlockeng no-cmp no-cms no-comp no-ct no-dtls no-gost no-rfc3779 no-sctp no-srp \
  no-srtp no-ts no-ui-console no-ssl3 no-ec2m no-aria no-bf no-camellia no-cast no-idea no-md2 \
  no-rc2 no-rc4 no-rc5 no-seed no-siv no-sm2 no-sm4 no-whirlpool no-makedepend \
  CFLAGS="-O1 -fPIC -w" > "$log" 2>&1 || fail Configure
"$make" -j2 build_generated > "$log" 2>&1 || fail "make build_generated"

# Compiles most files in batches, with only a few clang processes, and precompiles the headers that
# most files include.
# Files that include bio_local.h cannot use the precompiled headers, because bio_local.h must come
# before openssl/bio.h.
compile_together() {
  set -- "$make" libcrypto.a libssl.a
  for header in \
    '"crypto/evp.h"' '"internal/cryptlib.h"' '<errno.h>' '<openssl/asn1t.h>' '<openssl/bn.h>' \
    '<openssl/core_names.h>' '<openssl/crypto.h>' '<openssl/err.h>' '<openssl/evp.h>' \
    '<openssl/objects.h>' '<openssl/params.h>' '<openssl/rand.h>' '<openssl/x509.h>' \
    '<stdio.h>' '<stdlib.h>' '<string.h>'; do
    set -- --header="$header" "$@"
  done
  perl "$compile" --alone='bio_local[.]h"' "$@" > "$log" 2>&1 || fail compile.pl
}
[ "$8" = none ] || compile_together
"$make" -j2 libcrypto.a libssl.a > "$log" 2>&1 || fail "make libcrypto.a libssl.a"

cp libcrypto.a "$crypto"
cp libssl.a "$ssl"
mkdir -p "$include"
cp -R include/openssl "$include/"
find "$include" -name '*.in' -delete
