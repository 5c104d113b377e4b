# SPDX-License-Identifier: Apache-2.0
"""Programs that each show one idea, and that use only public APIs."""
