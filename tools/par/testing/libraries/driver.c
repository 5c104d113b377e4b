// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's driver, with the driver's soname. It is not packed
// into any program.
int par_test_driver_value(void);
int par_test_driver_value(void) { return 1; }
