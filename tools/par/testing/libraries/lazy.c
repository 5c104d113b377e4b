// SPDX-License-Identifier: Apache-2.0
// A library that needs the stand-in for NVIDIA's driver (driver.c). The library
// is in the same wheel as the extension, which does not need it.
int par_test_driver_value(void);
int par_test_lazy_value(void);
int par_test_lazy_value(void) { return par_test_driver_value(); }
