# SPDX-License-Identifier: Apache-2.0
"""torch_google as a dependency in another workspace."""
