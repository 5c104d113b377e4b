# SPDX-License-Identifier: Apache-2.0
"""PyTorch extensions for a monorepo. This import neither initializes a device nor loads JAX."""

import os

# One stat() call distinguishes a checkout from an installed package.
if os.path.exists(os.path.join(os.path.dirname(__path__[0]), "MODULE.bazel")):
    from torch_google import checkout

    checkout.warn_if_incomplete()
