# SPDX-License-Identifier: Apache-2.0
"""Programs that show one idea each and use public APIs only."""
