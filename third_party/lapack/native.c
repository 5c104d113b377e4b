// SPDX-License-Identifier: Apache-2.0
// The LAPACK routines that are not written in Fortran 77, and wrappers that
// adapt OpenBLAS's complex dot products to f2c's calling convention. LAPACK's
// documentation describes each routine.
#include <complex.h>
#include <float.h>
#undef complex

#include "f2c.h"
#undef cdotc_
#undef cdotu_
#undef zdotc_
#undef zdotu_

#define DOT(TYPE, KIND)                                                   \
  void cblas_##KIND##_sub(int n, const void* x, int incx, const void* y,  \
                          int incy, void* result);                        \
  void lapack_##KIND##_(TYPE* result, integer* n, TYPE* x, integer* incx, \
                        TYPE* y, integer* incy) {                         \
    cblas_##KIND##_sub(*n, x, *incx, y, *incy, result);                   \
  }

DOT(complex, cdotc)
DOT(complex, cdotu)
DOT(doublecomplex, zdotc)
DOT(doublecomplex, zdotu)

// A stub for LAPACK's function that returns the parameters of two-stage
// reductions, because this build does not contain these reductions. Returns -1,
// which means that the request is invalid.
integer iparam2stage_(integer* ispec, char* name, char* opts, integer* ni,
                      integer* nbi, integer* ibi, integer* nxi,
                      ftnlen name_length, ftnlen opts_length) {
  return -1;
}

// Computes a plane rotation of two complex numbers: returns c, and stores s and
// r such that c f + s g = r and -conj(s) f + c g = 0. Both numbers are scaled
// so that the larger is about one. The direction of f is computed from f alone,
// scaled separately, to stay accurate if f is much smaller than g.
static double Rotate(double _Complex f, double _Complex g, double _Complex* s,
                     double _Complex* r) {
  if (g == 0) {
    *s = 0;
    *r = f;
    return 1;
  }
  if (f == 0) {
    const double size = cabs(g);
    *s = conj(g) / size;
    *r = size;
    return 0;
  }
  int exponent;
  frexp(fmax(fmax(fabs(creal(f)), fabs(cimag(f))),
             fmax(fabs(creal(g)), fabs(cimag(g)))),
        &exponent);
  int own;
  frexp(fmax(fabs(creal(f)), fabs(cimag(f))), &own);
  const double _Complex turned =
      __builtin_complex(ldexp(creal(f), -own), ldexp(cimag(f), -own));
  const double _Complex direction = turned / cabs(turned);
  const double f_size = ldexp(cabs(turned), own - exponent);
  const double _Complex scaled =
      __builtin_complex(ldexp(creal(g), -exponent), ldexp(cimag(g), -exponent));
  const double size = hypot(f_size, cabs(scaled));
  const double _Complex result = direction * size;
  *s = direction * conj(scaled) / size;
  *r = __builtin_complex(ldexp(creal(result), exponent),
                         ldexp(cimag(result), exponent));
  return f_size / size;
}

// Like Rotate, for two real numbers. r has the sign of f.
static double RotateReal(double f, double g, double* s, double* r) {
  if (g == 0) {
    *s = 0;
    *r = f;
    return 1;
  }
  if (f == 0) {
    *s = copysign(1, g);
    *r = fabs(g);
    return 0;
  }
  int exponent;
  frexp(fmax(fabs(f), fabs(g)), &exponent);
  const double fs = ldexp(f, -exponent), gs = ldexp(g, -exponent);
  const double size = copysign(sqrt(fs * fs + gs * gs), f);
  *s = gs / size;
  *r = ldexp(size, exponent);
  return fs / size;
}

#define ROTATIONS(REAL, COMPLEX, real_name, complex_name)                     \
  int real_name(REAL* f, REAL* g, REAL* c, REAL* s, REAL* r) {                \
    double sine, length;                                                      \
    *c = RotateReal(*f, *g, &sine, &length);                                  \
    *s = sine;                                                                \
    *r = length;                                                              \
    return 0;                                                                 \
  }                                                                           \
  int complex_name(COMPLEX* f, COMPLEX* g, REAL* c, COMPLEX* s, COMPLEX* r) { \
    double _Complex sine, length;                                             \
    *c = Rotate(__builtin_complex(f->r, f->i), __builtin_complex(g->r, g->i), \
                &sine, &length);                                              \
    s->r = creal(sine);                                                       \
    s->i = cimag(sine);                                                       \
    r->r = creal(length);                                                     \
    r->i = cimag(length);                                                     \
    return 0;                                                                 \
  }

ROTATIONS(real, complex, slartg_, clartg_)
ROTATIONS(doublereal, doublecomplex, dlartg_, zlartg_)

// Updates scale and sumsq so that scale^2 sumsq grows by the sum of the squares
// of n numbers, without overflow.
#define SUM_OF_SQUARES(REAL, name, PARTS)                                  \
  int name(integer* n, REAL* x, integer* incx, REAL* scale, REAL* sumsq) { \
    if (isnan(*scale) || isnan(*sumsq)) return 0;                          \
    if (*sumsq == 0) *scale = 1;                                           \
    if (*scale == 0) {                                                     \
      *scale = 1;                                                          \
      *sumsq = 0;                                                          \
    }                                                                      \
    const long step = (long)*incx * PARTS;                                 \
    const REAL* at = *incx < 0 ? x - (*n - 1) * step : x;                  \
    for (integer i = 0; i < *n; ++i, at += step) {                         \
      for (int part = 0; part < PARTS; ++part) {                           \
        const REAL size = fabs(at[part]);                                  \
        if (size > *scale) {                                               \
          const REAL ratio = *scale / size;                                \
          *sumsq = 1 + *sumsq * ratio * ratio;                             \
          *scale = size;                                                   \
        } else if (size != 0) {                                            \
          const REAL ratio = size == *scale ? 1 : size / *scale;           \
          *sumsq += ratio * ratio;                                         \
        }                                                                  \
      }                                                                    \
    }                                                                      \
    return 0;                                                              \
  }

SUM_OF_SQUARES(real, slassq_, 1)
SUM_OF_SQUARES(doublereal, dlassq_, 1)
SUM_OF_SQUARES(real, classq_, 2)
SUM_OF_SQUARES(doublereal, zlassq_, 2)

#define MACHINE(REAL, PREFIX, x)                                         \
  REAL x##lamch_(char* what, ftnlen length) {                            \
    switch (*what & ~0x20) {                                             \
      case 'E':                                                          \
        return PREFIX##_EPSILON / 2;                                     \
      case 'S':                                                          \
      case 'U':                                                          \
        return PREFIX##_MIN;                                             \
      case 'B':                                                          \
        return FLT_RADIX;                                                \
      case 'P':                                                          \
        return PREFIX##_EPSILON;                                         \
      case 'N':                                                          \
        return PREFIX##_MANT_DIG;                                        \
      case 'R':                                                          \
        return 1;                                                        \
      case 'M':                                                          \
        return PREFIX##_MIN_EXP;                                         \
      case 'L':                                                          \
        return PREFIX##_MAX_EXP;                                         \
      case 'O':                                                          \
        return PREFIX##_MAX;                                             \
    }                                                                    \
    return 0;                                                            \
  }                                                                      \
  /* Returns the sum. The store to memory rounds it to REAL. */          \
  REAL x##lamc3_(REAL* a, REAL* b) {                                     \
    const volatile REAL sum = *a + *b;                                   \
    return sum;                                                          \
  }                                                                      \
  logical x##isnan_(REAL* value) { return isnan(*value); }               \
  logical x##laisnan_(REAL* a, REAL* b) { return *a != *b; }             \
  /* Returns the size of a workspace, rounded up to a value of REAL. */  \
  REAL x##roundup_lwork__(integer* size) {                               \
    const REAL nearest = *size;                                          \
    return nearest < *size ? nearest * (1 + PREFIX##_EPSILON) : nearest; \
  }

MACHINE(real, FLT, s)
MACHINE(doublereal, DBL, d)
