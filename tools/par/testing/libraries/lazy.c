// SPDX-License-Identifier: Apache-2.0
// A library that the extension does not need: it needs the driver.
int par_test_driver_value(void);
int par_test_lazy_value(void);
int par_test_lazy_value(void) { return par_test_driver_value(); }
