// SPDX-License-Identifier: Apache-2.0
// Validates marshalled tables before they are unmarshalled, because marshal
// trusts its input.
#ifndef TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_
#define TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_

#include <stddef.h>

// Returns 1 if `data` is a single marshalled value that consists only of None,
// bool, int, float, bytes, str, tuple, list, and dict with str keys. It must
// not contain a reference to an unfinished value or a size that exceeds the
// remaining bytes. The memory that it takes to unmarshal such data is
// proportional to `size`.
int par_is_plain_data(const unsigned char* data, size_t size);

#endif  // TOOLS_PAR_LAUNCHER_PLAIN_DATA_H_
