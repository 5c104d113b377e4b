# SPDX-License-Identifier: Apache-2.0
"""What the lowerings give for torch's own samples of each operator, compared with the CPU."""
