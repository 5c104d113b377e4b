// SPDX-License-Identifier: Apache-2.0
// Has the name of NVIDIA's driver. No program contains it.
int par_test_driver_value(void);
int par_test_driver_value(void) { return 1; }
