// SPDX-License-Identifier: Apache-2.0
#ifndef THIRD_PARTY_CLANG_TESTS_THROUGH_H_
#define THIRD_PARTY_CLANG_TESTS_THROUGH_H_

// Calls `function`, then sets *left to true, even if `function` throws.
void through(void (*function)(), bool* left);

#endif  // THIRD_PARTY_CLANG_TESTS_THROUGH_H_
