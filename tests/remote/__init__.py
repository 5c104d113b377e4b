# SPDX-License-Identifier: Apache-2.0
"""`--config=remote` against a Remote Execution service on this machine."""
