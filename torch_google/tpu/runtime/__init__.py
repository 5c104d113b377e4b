# SPDX-License-Identifier: Apache-2.0
"""What every room of the device stands on: the platform, arrays, memory, the compiler.

Each module is a door of its own: importing this one loads none of them, and no JAX.
"""
