# SPDX-License-Identifier: Apache-2.0
# The extension module built from scaled_tanh_operator.cpp. It has no functions: importing it
# registers the operator.
