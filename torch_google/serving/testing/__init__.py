# SPDX-License-Identifier: Apache-2.0
"""A small server, and functions that start a server and send requests to it."""
