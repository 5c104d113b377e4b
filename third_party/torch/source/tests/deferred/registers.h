// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many constructors have run: of the library that is deferred, and of one
// that it depends on. Volatile: a compiler would run them itself.
extern volatile int registered;
extern volatile int neighbours;
