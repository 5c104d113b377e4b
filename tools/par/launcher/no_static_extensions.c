// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/static_extensions.h"

const struct par_static_extension par_static_extensions[] = {{NULL, NULL}};
const struct par_static_program par_static_programs[] = {{NULL, NULL}};
