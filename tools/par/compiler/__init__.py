# SPDX-License-Identifier: Apache-2.0
"""The PAR compiler, which bundles and links at build time. A running PAR never imports it."""
