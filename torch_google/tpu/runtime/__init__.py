# SPDX-License-Identifier: Apache-2.0
"""The foundation of the device: platform, arrays, memory, compiler.

Import each module directly. This package imports none of them and no JAX.
"""
