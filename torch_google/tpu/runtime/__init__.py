# SPDX-License-Identifier: Apache-2.0
"""The foundation of the tpu device: the PJRT platform, arrays, memory and the compiler.

Import each module directly. This package itself imports neither its modules nor JAX.
"""
