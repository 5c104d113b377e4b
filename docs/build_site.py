# SPDX-License-Identifier: Apache-2.0
"""Build a web site from the pages in docs/ with MkDocs. Fail if a link or an anchor is dead.

build_site.par --config=docs/mkdocs.yml --output=DIRECTORY PAGE.md ... pictures/PICTURE.png ...
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# Matches a link to a file outside docs/, whose existence the presubmit checks.
_REPOSITORY_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?:\.\./)+(?P<path>[^)#\s]*)(?:#[^)\s]*)?\)")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="mkdocs.yml")
    parser.add_argument("--output", type=Path, required=True, help="the directory of the site")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    problems = build(options.config, options.pages, options.output)
    for problem in problems:
        print(f"docs: {problem}. Correct the page, or `nav` in docs/mkdocs.yml", file=sys.stderr)
    return 1 if problems else 0


def build(config: Path, pages: Sequence[Path], output: Path) -> list[str]:
    """Write the site to `output`, reproducibly, and return MkDocs's warnings.

    The site keeps each image (a PNG file in `pages`) in a folder named after its source folder.
    """
    os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # 1980-01-01, the date of files in PARs
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    warnings = _Warnings()
    log = logging.getLogger("mkdocs")
    log.addHandler(warnings)
    try:
        with tempfile.TemporaryDirectory() as directory:
            for page in pages:
                if page.suffix == ".png":
                    pictures = Path(directory, page.parent.name)
                    pictures.mkdir(exist_ok=True)
                    shutil.copyfile(page, pictures / page.name)
                    continue
                text = name_repository_files(page.read_text(encoding="utf-8"))
                Path(directory, page.name).write_text(text, encoding="utf-8")
            mkdocs_build(
                load_config(
                    str(config),
                    docs_dir=directory,
                    site_dir=str(output.absolute()),
                    # In strict mode, MkDocs would stop at the first bad page. We report all
                    # warnings instead.
                    strict=False,
                )
            )
    finally:
        log.removeHandler(warnings)
    return warnings.texts


def name_repository_files(markdown: str) -> str:
    """Replace each link to a file outside docs/ with the file's path.

    The site does not contain these files, and no URL is valid for every clone of the repository.
    """
    return "\n".join(
        line if code else _REPOSITORY_LINK.sub(_path, line)
        for code, line in _lines(markdown.split("\n"))
    )


def _path(link: re.Match[str]) -> str:
    text, path = link["text"], f"`{link['path']}`"
    return path if text.strip("`") == link["path"] else f"{text} ({path})"


def _lines(lines: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield, for each line, whether it is part of a code block, and the line."""
    in_code = False
    for line in lines:
        fence = line.lstrip().startswith("```")
        yield in_code or fence, line
        in_code ^= fence


class _Warnings(logging.Handler):
    """A logging handler that collects the messages of warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
