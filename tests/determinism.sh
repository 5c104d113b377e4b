#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build //examples:train.par in two clones of the repository without an action cache, and compare
# the results byte by byte. This takes two full builds, which share only Bazel's download cache.
#
#   tests/determinism.sh [DIRECTORY]     clone and build in DIRECTORY (default: a temporary one)

set -euo pipefail

target="//examples:train.par"
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
if [[ $# -gt 0 ]]; then
  mkdir -p "$1"
  work="$(cd "$1" && pwd)"
else
  work="$(mktemp -d)"
  trap 'chmod -R u+w "${work}"; rm -rf "${work}"' EXIT
fi
readonly target source work

# The paths of the clones differ in length, so that a path in the output would shift the bytes after
# it.
build() {
  local clone="$1"
  rm -rf "${clone}"
  # Unset the variables that git sets for hooks. Otherwise, git would check out the clone in
  # GIT_WORK_TREE if a hook runs this script.
  env -u GIT_DIR -u GIT_WORK_TREE -u GIT_INDEX_FILE git clone --quiet "${source}" "${clone}"
  local bazel=(./bazelw --output_base="${clone}.output")
  (
    cd "${clone}"
    status=0
    "${bazel[@]}" build --disk_cache= --remote_cache= "${target}" || status=$?
    "${bazel[@]}" shutdown
    exit "${status}"
  )
}

build "${work}/one"
sleep 2 # A zip file stores times in steps of two seconds, so the two builds must differ in time.
build "${work}/a_second_clone"

one="${work}/one/bazel-bin/examples/train.par"
two="${work}/a_second_clone/bazel-bin/examples/train.par"
sha256sum "${one}" "${two}"
if ! cmp "${one}" "${two}"; then
  echo "tests/determinism.sh: two builds of ${target} differ; compare them with \`PAR_LIST=1\` and" \
    "diffoscope: ${one} ${two}" >&2
  exit 1
fi
echo "both builds have the same $(stat -L --format=%s "${one}") bytes"
