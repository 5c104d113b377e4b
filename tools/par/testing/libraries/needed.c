// SPDX-License-Identifier: Apache-2.0
// A library of one wheel, which an extension of another wheel needs.
int par_test_needed_value(void);
int par_test_needed_value(void) { return 42; }
