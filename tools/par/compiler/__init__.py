# SPDX-License-Identifier: Apache-2.0
"""The PAR compiler, which bundles and links at build time. No running PAR imports it."""
