# SPDX-License-Identifier: Apache-2.0
"""Prints the number that an extension gets from another wheel's library."""

import par_test_needy

if __name__ == "__main__":
    print(par_test_needy.value())
