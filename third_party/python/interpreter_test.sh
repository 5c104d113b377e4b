#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a test file with the plain interpreter, in an almost empty environment.
# usage: interpreter_test.sh PYTHON_TREE TEST_PY SETUP_LOCAL
set -eu
exec env -i TEST_TMPDIR="$TEST_TMPDIR" PATH=/usr/bin:/bin "$1/bin/python3.11" -I "$2" "$1" "$3"
