# SPDX-License-Identifier: Apache-2.0
"""The overhead of torch_google's libraries, compared with plain Python and torch."""
