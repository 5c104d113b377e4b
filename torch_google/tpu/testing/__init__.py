# SPDX-License-Identifier: Apache-2.0
"""What the tests of the device share. Nothing that ships imports this."""
