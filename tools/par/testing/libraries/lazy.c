// SPDX-License-Identifier: Apache-2.0
// A library that needs the driver, but that the extension itself does not need.
int par_test_driver_value(void);
int par_test_lazy_value(void);
int par_test_lazy_value(void) { return par_test_driver_value(); }
