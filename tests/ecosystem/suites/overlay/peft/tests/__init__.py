# SPDX-License-Identifier: Apache-2.0
"""The package of peft's tests, whose files import each other relatively, as in its repository."""
