# SPDX-License-Identifier: Apache-2.0
"""What the libraries of torch_google cost, beside doing without them."""
