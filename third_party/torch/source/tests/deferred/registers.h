// SPDX-License-Identifier: Apache-2.0
#pragma once

// The number of constructors that have run in the deferred library, and in its
// dependency. Volatile, because the compiler would otherwise evaluate them at
// compile time.
extern volatile int registered;
extern volatile int neighbours;
