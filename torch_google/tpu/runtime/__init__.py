# SPDX-License-Identifier: Apache-2.0
"""What every room of the device stands on: the platform, arrays, memory, the compiler."""
