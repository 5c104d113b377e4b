// SPDX-License-Identifier: Apache-2.0
// The record in the launcher's own bytes that marks a packed program.
#ifndef TOOLS_PAR_LAUNCHER_SEAL_H_
#define TOOLS_PAR_LAUNCHER_SEAL_H_

#include <stdint.h>

// compiler/link.py finds the magic in the launcher and fills in the size, so
// that a truncated file is reported as such, not mistaken for an empty
// launcher.
struct par_seal {
  char magic[16];
  uint64_t file_size;  // of the whole PAR; 0 in a launcher without a program
  uint64_t flags;
};

#define PAR_SEAL_NO_DOORS 1  // par_binary(doors = False)

#define PAR_SEAL_MAGIC "PAR launcher v1"

extern volatile const struct par_seal par_seal;

#endif  // TOOLS_PAR_LAUNCHER_SEAL_H_
