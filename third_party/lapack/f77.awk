# SPDX-License-Identifier: Apache-2.0
# Removes Fortran 90 from sources that are otherwise Fortran 77: CYCLE and EXIT become jumps.
# RECURSIVE is dropped, because f2c -a keeps variables on the stack. Comments are dropped as well.

# Returns the label that CYCLE (kind 1) or EXIT (kind 2) jumps to. For CYCLE, this is the loop's own
# label, if the loop has one.
function target(kind) {
  used[depth, kind] = 1
  if (kind == 1 && labelled[depth]) return labelled[depth]
  return 90000 + 10 * number[depth] + kind
}

function land(kind) {
  if (used[depth, kind]) printf "%5d CONTINUE\n", 90000 + 10 * number[depth] + kind
}

function begin_loop(label) {
  number[++depth] = ++loops
  labelled[depth] = label
  used[depth, 1] = used[depth, 2] = 0
}

/^[*cC!]/ || /^ *(!.*)?$/ { next }

{ line = toupper($0) }

line ~ /^ +RECURSIVE +/ { sub(/RECURSIVE|recursive/, "") }

line ~ /^ +DO +[A-Z]/ { begin_loop("") }
line ~ /^ +DO +[0-9]+ +[A-Z]/ { split(line, word); begin_loop(word[2]) }

match(line, /CYCLE *$/) { $0 = substr($0, 1, RSTART - 1) "GO TO " target(1) }
match(line, /EXIT *$/) { $0 = substr($0, 1, RSTART - 1) "GO TO " target(2) }

line ~ /^ +END *DO *$/ {
  land(1)
  print
  land(2)
  --depth
  next
}

line ~ /^ *[0-9]+ +CONTINUE/ {
  print
  split(line, word)
  while (depth && labelled[depth] == word[1]) {
    land(2)
    --depth
  }
  next
}

{ print }
