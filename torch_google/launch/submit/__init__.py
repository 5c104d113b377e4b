# SPDX-License-Identifier: Apache-2.0
"""Submit a PAR (a one-file program) as a job.

This starts the job, shows the logs of all ranks, and exits with the job's status.
"""
