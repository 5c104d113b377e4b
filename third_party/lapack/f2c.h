// SPDX-License-Identifier: Apache-2.0
// The types that f2c's output uses, and the functions of f2c's run-time library
// that LAPACK calls. The functions are inline, so that their short names do not
// become symbols of a program.
#ifndef TORCH_GOOGLE_THIRD_PARTY_LAPACK_F2C_H_
#define TORCH_GOOGLE_THIRD_PARTY_LAPACK_F2C_H_

#include <math.h>
#include <string.h>

typedef int integer;
typedef int logical;
typedef int ftnlen;
typedef float real;
typedef double doublereal;
typedef char* address;
typedef struct {
  real r, i;
} complex;
typedef struct {
  doublereal r, i;
} doublecomplex;

#define VOID void
#define TRUE_ 1
#define FALSE_ 0
#define abs(x) ((x) >= 0 ? (x) : -(x))
#define min(a, b) ((a) <= (b) ? (a) : (b))
#define max(a, b) ((a) >= (b) ? (a) : (b))

// Like gfortran, OpenBLAS returns complex results by value, but f2c passes a
// pointer to the result. native.c contains wrappers.
#define cdotc_ lapack_cdotc_
#define cdotu_ lapack_cdotu_
#define zdotc_ lapack_zdotc_
#define zdotu_ lapack_zdotu_

static inline double r_imag(complex* z) { return z->i; }
static inline double d_imag(doublecomplex* z) { return z->i; }
static inline double r_sign(real* a, real* b) { return copysign(*a, *b); }
static inline double d_sign(doublereal* a, doublereal* b) {
  return copysign(*a, *b);
}
static inline integer i_nint(real* x) { return (integer)lround(*x); }
static inline integer i_dnnt(doublereal* x) { return (integer)lround(*x); }

static inline double pow_dd(doublereal* base, doublereal* exponent) {
  return pow(*base, *exponent);
}
static inline double pow_di(doublereal* base, integer* exponent) {
  return pow(*base, *exponent);
}
static inline double pow_ri(real* base, integer* exponent) {
  return pow(*base, *exponent);
}
static inline integer pow_ii(integer* base, integer* exponent) {
  if (*exponent < 0)
    return *base == 1 ? 1 : *base == -1 ? 1 - 2 * (*exponent & 1) : 0;
  integer result = 1;
  for (integer i = 0; i < *exponent; ++i) result *= *base;
  return result;
}

// Complex arithmetic. hypot and the scaled division avoid overflow and
// underflow.
static inline double z_abs(doublecomplex* z) { return hypot(z->r, z->i); }
static inline double c_abs(complex* z) { return hypot(z->r, z->i); }

static inline void z_div(doublecomplex* result, doublecomplex* a,
                         doublecomplex* b) {
  const double ar = a->r, ai = a->i, br = b->r, bi = b->i;
  if (fabs(br) >= fabs(bi)) {
    const double ratio = bi / br, scale = br + bi * ratio;
    result->r = (ar + ai * ratio) / scale;
    result->i = (ai - ar * ratio) / scale;
  } else {
    const double ratio = br / bi, scale = br * ratio + bi;
    result->r = (ar * ratio + ai) / scale;
    result->i = (ai * ratio - ar) / scale;
  }
}

static inline void z_sqrt(doublecomplex* result, doublecomplex* z) {
  const double zr = z->r, zi = z->i, size = hypot(zr, zi);
  if (size == 0) {
    result->r = result->i = 0;
  } else if (zr > 0) {
    const double root = sqrt(0.5 * size + 0.5 * zr);
    result->r = root;
    result->i = zi / root / 2;
  } else {
    const double root = copysign(sqrt(0.5 * size - 0.5 * zr), zi);
    result->r = zi / root / 2;
    result->i = root;
  }
}

static inline void pow_zi(doublecomplex* result, doublecomplex* base,
                          integer* exponent) {
  doublecomplex power = {1, 0}, factor = *base, one = {1, 0};
  for (integer left = abs(*exponent); left; left >>= 1) {
    if (left & 1) {
      const double r = power.r * factor.r - power.i * factor.i;
      power.i = power.r * factor.i + power.i * factor.r;
      power.r = r;
    }
    const double r = factor.r * factor.r - factor.i * factor.i;
    factor.i = 2 * factor.r * factor.i;
    factor.r = r;
  }
  if (*exponent < 0) z_div(&power, &one, &power);
  *result = power;
}

static inline doublecomplex widened(complex* z) {
  const doublecomplex wide = {z->r, z->i};
  return wide;
}
static inline void narrow(complex* result, doublecomplex* z) {
  result->r = z->r;
  result->i = z->i;
}
static inline void c_div(complex* result, complex* a, complex* b) {
  doublecomplex x = widened(a), y = widened(b);
  z_div(&x, &x, &y);
  narrow(result, &x);
}
static inline void c_sqrt(complex* result, complex* z) {
  doublecomplex x = widened(z);
  z_sqrt(&x, &x);
  narrow(result, &x);
}
static inline void pow_ci(complex* result, complex* base, integer* exponent) {
  doublecomplex x = widened(base);
  pow_zi(&x, &x, exponent);
  narrow(result, &x);
}
static inline void r_cnjg(complex* result, complex* z) {
  const complex conjugate = {z->r, -z->i};
  *result = conjugate;
}
static inline void d_cnjg(doublecomplex* result, doublecomplex* z) {
  const doublecomplex conjugate = {z->r, -z->i};
  *result = conjugate;
}

// Fortran strings have a length and no terminator. A comparison pads the
// shorter string with spaces.
static inline integer i_len(char* text, ftnlen length) {
  (void)text;
  return length;
}
static inline int s_copy(char* to, char* from, ftnlen to_length,
                         ftnlen from_length) {
  for (ftnlen i = 0; i < to_length; ++i)
    to[i] = i < from_length ? from[i] : ' ';
  return 0;
}
static inline integer s_cmp(char* a, char* b, ftnlen a_length,
                            ftnlen b_length) {
  const ftnlen length = max(a_length, b_length);
  for (ftnlen i = 0; i < length; ++i) {
    const unsigned char x = i < a_length ? a[i] : ' ';
    const unsigned char y = i < b_length ? b[i] : ' ';
    if (x != y) return x - y;
  }
  return 0;
}
static inline int s_cat(char* to, char** parts, integer* lengths,
                        integer* count, ftnlen to_length) {
  ftnlen at = 0;
  for (integer part = 0; part < *count; ++part) {
    for (integer i = 0; i < lengths[part] && at < to_length; ++i) {
      to[at++] = parts[part][i];
    }
  }
  while (at < to_length) to[at++] = ' ';
  return 0;
}

#endif  // TORCH_GOOGLE_THIRD_PARTY_LAPACK_F2C_H_
