// SPDX-License-Identifier: Apache-2.0
#pragma once

// The number of constructors that have run in the deferred library, and in one
// that it depends on. Volatile, because the compiler would evaluate them at
// compile time.
extern volatile int registered;
extern volatile int neighbours;
