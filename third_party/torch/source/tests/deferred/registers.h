// SPDX-License-Identifier: Apache-2.0
#pragma once

// The numbers of constructors that have run in the deferred library and in its
// dependency. They are volatile, so that the compiler does not run the
// constructors at compile time.
extern volatile int registered;
extern volatile int neighbours;
