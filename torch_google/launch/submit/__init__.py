# SPDX-License-Identifier: Apache-2.0
"""Submit a PAR as a job: start it, show the logs of all ranks, and end with its status."""
