# SPDX-License-Identifier: Apache-2.0
"""The GPU architectures for which kernels can be compiled."""

# The GPU architectures that clang 19 and CUDA 12.9 support. On a newer GPU, the driver compiles the
# kernels' PTX when a program starts.
ARCHS = [
    "sm_50",
    "sm_52",
    "sm_53",
    "sm_60",
    "sm_61",
    "sm_62",
    "sm_70",
    "sm_72",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_89",
    "sm_90",
    "sm_90a",
]

def arch_problem(archs):
    """Return an error message for a target's `archs` attribute if it is invalid.

    Args:
      archs: a list of names.

    Returns:
      One line, or None.
    """
    for arch in archs:
        if arch not in ARCHS:
            return "archs has '%s'; the known ones are %s. Newer GPUs run the PTX of sm_90" % (
                arch,
                ", ".join(ARCHS),
            )
    if not archs or len(archs) != len({arch: None for arch in archs}):
        return "archs is %s; name each GPU once, such as [\"sm_80\", \"sm_90\"]" % archs
    return None

def ptx_arch(archs):
    """Return the architecture whose PTX newer GPUs can run.

    Args:
      archs: names in ARCHS.

    Returns:
      The newest of them, or None if none is portable.
    """

    # PTX for an architecture-specific target such as sm_90a does not run on newer GPUs.
    portable = [arch for arch in ARCHS if arch in archs and not arch.endswith("a")]
    return portable[-1] if portable else None
