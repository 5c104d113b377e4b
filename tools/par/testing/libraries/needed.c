// SPDX-License-Identifier: Apache-2.0
// A library in one wheel that an extension in another wheel needs.
int par_test_needed_value(void);
int par_test_needed_value(void) { return 42; }
