# SPDX-License-Identifier: Apache-2.0
"""`ROUTINES`: the files of LAPACK that torch's linear algebra needs, by name and without `.f`.

aten/src/ATen/native/BatchLinearAlgebra.cpp calls the entry points, which call the other routines.
Not listed: the routines that OpenBLAS implements (getrf, getrs, laswp, lauum, potrf, syr, trtri, trtrs and
their parts) and those in native.c.
"""

def _words(text):
    return [word for line in text.split("\n") for word in line.strip().split(" ") if word]

# Routines for all element types: s, d, c and z (the first letter of a routine's name).
_OF_EACH_TYPE = _words("""
    bdsqr gebak gebal gebd2 gebrd geev gehd2 gehrd gelq2 gelqf gels gelsd gelss gelsy geqp3
    geqr2 geqrf gesdd hseqr labrd lacpy ladiv laed0 laed7 laed8 lahqr lahr2 laic1 lals0 lalsa
    lalsd lange laqp2 laqps laqr0 laqr1 laqr2 laqr3 laqr4 laqr5 larf1f larf1l larfb larfg larft
    larz larzb larzt lascl laset lasr lasyf latrd latrz potri potrs stedc steqr sytf2 sytrf
    sytrs trevc3 trexc tzrzf
""")

# Routines for real elements: s and d.
_REAL = _words("""
    bdsdc lae2 laed1 laed2 laed3 laed4 laed5 laed6 laed9 laeda laev2 laexc laln2 lamrg lanst
    lansy lanv2 lapy2 lapy3 larf larfx las2 lasd0 lasd1 lasd2 lasd3 lasd4 lasd5 lasd6 lasd7
    lasd8 lasda lasdq lasdt lasq1 lasq2 lasq3 lasq4 lasq5 lasq6 lasrt lasv2 lasy2 org2r orgbr
    orghr orgl2 orglq orgqr orm2l orm2r ormbr ormhr orml2 ormlq ormql ormqr ormr3 ormrz ormtr
    rscl sterf syevd sytd2 sytrd
""")

# Routines for complex elements: c and z.
_COMPLEX = _words("""
    heevd hetd2 hetf2 hetrd hetrf hetrs lacgv lacp2 lacrm lahef lanhe larcm latrs rot ung2r
    ungbr unghr ungl2 unglq ungqr unm2l unm2r unmbr unmhr unml2 unmlq unmql unmqr unmr3 unmrz
    unmtr
""")

# Routines whose names do not follow that pattern. These are complete names.
_OTHER = _words("""
    csrscl ieeeck ilaclc ilaclr iladlc iladlr ilaenv ilaslc ilaslr ilazlc ilazlr iparmq zdrscl
""")

ROUTINES = sorted(
    [letter + name for letter in ["s", "d", "c", "z"] for name in _OF_EACH_TYPE] +
    [letter + name for letter in ["s", "d"] for name in _REAL] +
    [letter + name for letter in ["c", "z"] for name in _COMPLEX] +
    _OTHER,
)
