# SPDX-License-Identifier: Apache-2.0
"""Submit a PAR as a job: start it, show the logs of all ranks, and exit with the job's status."""
