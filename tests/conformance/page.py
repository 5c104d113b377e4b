# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from tests.conformance.rows import Outcome, Row
def summary(found):
    lines=[]
    for key in dict.fromkeys((r.dtype,r.check) for r in found):
        c=Counter(r.outcome for r in found if (r.dtype,r.check)==key)
        n=sum(c.values())-c[Outcome.EMPTY]
        lines.append(f"{key[0]} {key[1]}: {c[Outcome.PASSED]} of {n} passed "+", ".join(f"{v} {o.value}" for o,v in c.items() if o is not Outcome.PASSED))
    return "\n".join(lines)
