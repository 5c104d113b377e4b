# SPDX-License-Identifier: Apache-2.0
"""Write a C file that contains modules as frozen code: freeze.py OUTPUT NAME=SOURCE...

A NAME that ends in a dot is a package. This script imports only the standard library. It cannot use
the PAR compiler, which runs in the launcher, because the launcher contains this script's output.
"""

import marshal
import os
import sys


def main(output: str, modules: list[str]) -> None:
    tables, rows = [], []
    for number, item in enumerate(modules):
        name, _, path = item.partition("=")
        package = name.endswith(".")
        name = name.rstrip(".")
        with open(path, "rb") as stream:
            code = compile(stream.read(), f"<frozen {name}>", "exec", dont_inherit=True)
        data = marshal.dumps(code)
        digits = ",".join(map(str, data))
        tables.append(f"static const unsigned char module_{number}[] = {{{digits}}};")
        rows.append(
            f'    {{"{name}", module_{number}, (int)sizeof(module_{number}), {int(package)}, NULL}},'
        )
    text = "\n".join(
        [
            '#include "tools/par/launcher/frozen.h"',
            *tables,
            "const struct _frozen par_frozen_modules[] = {",
            *rows,
            "    {NULL, NULL, 0, 0, NULL},",
            "};",
            "",
        ]
    )
    partial = f"{output}.{os.getpid()}.partial"
    with open(partial, "w", encoding="ascii") as stream:
        stream.write(text)
    os.replace(partial, output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
