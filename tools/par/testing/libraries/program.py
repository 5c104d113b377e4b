# SPDX-License-Identifier: Apache-2.0
"""Print the number that an extension gets from a library in another wheel."""

import par_test_needy

if __name__ == "__main__":
    print(par_test_needy.value())
