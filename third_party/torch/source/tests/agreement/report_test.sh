#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that the report contains only the call that resolves to another file's function.
# usage: report_test.sh REPORT
set -eu
expect() {
  grep -qE -- "$1" "${report}" || {
    echo "report_test: no line like '$1' in:" >&2
    cat "${report}" >&2
    exit 1
  }
}
report="$1"
expect '^differ: [1-9][0-9]* functions$'
expect 'refers to _Z7CleanedR5Graph, but the file compiled alone refers to .*_GLOBAL__N_1.*Cleaned'
[ "$(wc -l < "${report}")" = 2 ] || expect 'one line for the one function'
