# SPDX-License-Identifier: Apache-2.0
"""The style sheet that is embedded in the drift page, with a light and a dark theme.

In both themes, text has a contrast ratio of at least 4.5:1 against its background.
"""

STYLE = """\
:root {
  color-scheme: light dark;
  --ground: #ffffff; --panel: #f5f6f8; --line: #d5d9e0; --ink: #1b1f26; --soft: #566070;
  --good: #11632f; --good-bg: #e2f4e8; --merge: #0b5a8a; --merge-bg: #e1f0fa;
  --doubt: #7a4b00; --doubt-bg: #fdf0d5; --gone: #74297f; --gone-bg: #f6e6f8;
  --bad: #a3161f; --bad-bg: #fde6e7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171c; --panel: #1d2128; --line: #363d49; --ink: #e4e8ee; --soft: #a0a9b8;
    --good: #7fdca0; --good-bg: #12301d; --merge: #86c9f4; --merge-bg: #10293b;
    --doubt: #f2c46d; --doubt-bg: #362709; --gone: #e0a5ea; --gone-bg: #321a37;
    --bad: #ff9ea3; --bad-bg: #3d1518;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .5rem; }
code, pre, tbody th { font-family: ui-monospace, monospace; font-size: .86rem; }
a { color: inherit; }
small { display: block; font-weight: 400; }
small, .sub, .next, .more { color: var(--soft); }
ul { padding-left: 1.2rem; }
li { margin: .25rem 0; }
.legend { list-style: none; padding: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .1rem 0; white-space: nowrap; }
thead th, tfoot th, tfoot td { border-bottom: 1px solid var(--line); padding-bottom: .4rem; }
tfoot th, tfoot td { border: 0; color: var(--soft); }
tbody { border-bottom: 1px solid var(--line); }
tbody th { font-weight: 600; }
dt:target { outline: 2px solid var(--merge); }
.sides { width: auto; background: var(--panel); margin: .3rem 0; }
.sides th, .sides td { padding: 0 1.2rem 0 .6rem; }
.sides code { white-space: pre; }
td a { text-decoration: none; }
tbody:target { background: var(--panel); }
.more td { padding-top: 0; padding-bottom: .4rem; white-space: normal; }
.more details[open] { color: var(--ink); }
summary { cursor: pointer; }
dd { margin: 0 0 .6rem 1.2rem; }
dd p, details p { margin: .3rem 0; }
pre {
  background: var(--panel); border: 1px solid var(--line); border-radius: 4px; padding: .6rem;
  margin: .3rem 0; overflow-x: auto; white-space: pre;
}
.add { color: var(--good); }
.cut { color: var(--bad); }
.at { color: var(--soft); }
.good { color: var(--good); }
.o { border-radius: 4px; padding: .05rem .4rem; color: var(--soft); background: var(--panel); }
.o-clean, .o-offset, .o-landed { color: var(--good); background: var(--good-bg); }
.o-3-way, .o-resolved { color: var(--merge); background: var(--merge-bg); }
.o-suspected, .o-ambiguous { color: var(--doubt); background: var(--doubt-bg); }
.o-file-gone { color: var(--gone); background: var(--gone-bg); }
.o-conflict { color: var(--bad); background: var(--bad-bg); }
@media print { .wide { overflow: visible; } details > * { display: block; } }
"""
