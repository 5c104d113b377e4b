// SPDX-License-Identifier: Apache-2.0
// A record in the launcher that states whether a program is appended to the
// launcher, and the size of the resulting PAR.
#ifndef TOOLS_PAR_LAUNCHER_SEAL_H_
#define TOOLS_PAR_LAUNCHER_SEAL_H_

#include <stdint.h>

// compiler/link.py finds this record by its magic and fills in the size. The
// size distinguishes a truncated PAR from a launcher without a program.
struct par_seal {
  char magic[16];
  uint64_t file_size;  // size of the whole PAR; 0 without a program
  uint64_t flags;
};

#define PAR_SEAL_NO_DOORS 1  // built with par_binary(doors = False)
// The archive continues in other files, which <program>.par_parts lists.
// `file_size` is then the size of the launcher alone. See compiler/parts.py.
#define PAR_SEAL_IN_PARTS 2

#define PAR_SEAL_MAGIC "PAR launcher v1"

extern volatile const struct par_seal par_seal;

#endif  // TOOLS_PAR_LAUNCHER_SEAL_H_
