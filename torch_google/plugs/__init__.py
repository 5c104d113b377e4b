# SPDX-License-Identifier: Apache-2.0
"""Our answers on torch's board, one module for each of its modules; torch_google.plug is the door."""
