# SPDX-License-Identifier: Apache-2.0
"""The foundation of the device: platform, arrays, memory, compiler.

Import each module directly. This package itself imports neither its modules nor JAX.
"""
