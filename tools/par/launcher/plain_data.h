// SPDX-License-Identifier: Apache-2.0
// Validation of marshalled tables before they are read, because marshal trusts
// its input.
#ifndef TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_
#define TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_

#include <stddef.h>

// Returns 1 if `data` is one marshalled value of None, bool, int, float, bytes,
// str, tuple, list and dict with str keys: no code, no reference to an
// unfinished value, no size that exceeds the bytes left. Unmarshalling it then
// takes memory in proportion to `size`.
int par_is_plain_data(const unsigned char* data, size_t size);

#endif  // TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_
