# SPDX-License-Identifier: Apache-2.0
# The extension of scaled_tanh_operator.cpp. It has no functions: its import registers operators.
