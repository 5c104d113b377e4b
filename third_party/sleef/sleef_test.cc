// SPDX-License-Identifier: Apache-2.0
// Compares sleef's functions for vectors of eight floats or four doubles with
// libm's scalar functions. Checks edge cases, and the error bounds that the
// function names promise: u10, for example, means 1.0 units in the last place.
#include "sleef.h"

#include <immintrin.h>

#include <cmath>
#include <cstdio>
#include <limits>

namespace {

constexpr int kFloats = 8;
constexpr int kDoubles = 4;
constexpr int kSteps = 20000;

using Float8 = __m256 (*)(__m256);
using Double4 = __m256d (*)(__m256d);
using Exact = double (*)(double);

struct FloatCase {
  const char* name;
  Float8 function;
  Exact exact;
  float low, high;
  double bound;
};

struct DoubleCase {
  const char* name;
  Double4 function;
  Exact exact;
  double low, high;
  double bound;
};

// The reference is libm's function for double, whose error is negligible for
// floats.
const FloatCase kFloatCases[] = {
    {"expf8_u10", Sleef_expf8_u10, std::exp, -80, 80, 1.0},
    {"logf8_u10", Sleef_logf8_u10, std::log, 1e-6f, 1e6f, 1.0},
    {"sinf8_u10", Sleef_sinf8_u10, std::sin, -1e6f, 1e6f, 1.0},
    {"cosf8_u35", Sleef_cosf8_u35, std::cos, -30, 30, 3.5},
    {"tanhf8_u10", Sleef_tanhf8_u10, std::tanh, -8, 8, 1.0},
    {"erff8_u10", Sleef_erff8_u10, std::erf, -4, 4, 1.0},
    {"lgammaf8_u10", Sleef_lgammaf8_u10, std::lgamma, 0.5f, 50, 1.0},
};

// The bounds include libm's own error of about half a unit in the last place.
const DoubleCase kDoubleCases[] = {
    {"expd4_u10", Sleef_expd4_u10, std::exp, -700, 700, 1.6},
    {"sind4_u10", Sleef_sind4_u10, std::sin, -1e9, 1e9, 1.6},
    {"expm1d4_u10", Sleef_expm1d4_u10, std::expm1, -5, 5, 2.1},
};

template <class Real>
double Units(Real value, double exact) {
  const Real nearest = static_cast<Real>(exact);
  const Real above =
      std::nextafter(std::fabs(nearest), std::numeric_limits<Real>::infinity());
  const double unit = double(above) - std::fabs(double(nearest));
  return std::fabs(double(value) - exact) / unit;
}

double Worst(const FloatCase& test) {
  double worst = 0;
  float in[kFloats], out[kFloats];
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kFloats; ++i) {
      in[i] = test.low + (test.high - test.low) * (step * kFloats + i) /
                             (kSteps * kFloats);
    }
    _mm256_storeu_ps(out, test.function(_mm256_loadu_ps(in)));
    for (int i = 0; i < kFloats; ++i) {
      worst = std::fmax(worst, Units(out[i], test.exact(in[i])));
    }
  }
  return worst;
}

double Worst(const DoubleCase& test) {
  double worst = 0;
  double in[kDoubles], out[kDoubles];
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kDoubles; ++i) {
      in[i] = test.low + (test.high - test.low) * (step * kDoubles + i) /
                             (kSteps * kDoubles);
    }
    _mm256_storeu_pd(out, test.function(_mm256_loadu_pd(in)));
    for (int i = 0; i < kDoubles; ++i) {
      worst = std::fmax(worst, Units(out[i], test.exact(in[i])));
    }
  }
  return worst;
}

template <class Case, size_t size>
int Check(const Case (&cases)[size]) {
  int failures = 0;
  for (const Case& test : cases) {
    const double worst = Worst(test);
    std::printf("Sleef_%s: at most %.3f units\n", test.name, worst);
    if (worst <= test.bound) continue;
    std::fprintf(stderr, "sleef_test: Sleef_%s: %.3f units, promised %.1f\n",
                 test.name, worst, test.bound);
    ++failures;
  }
  return failures;
}

int CheckEdges() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float out[kFloats];
  _mm256_storeu_ps(out, Sleef_expf8_u10(_mm256_set_ps(0, 1000, -1000, kInfinity,
                                                      -kInfinity, NAN, 0, 0)));
  // The first argument of _mm256_set_ps is the last element.
  const bool right = out[7] == 1 && out[6] == kInfinity && out[5] == 0 &&
                     out[4] == kInfinity && out[3] == 0 && std::isnan(out[2]);
  if (!right) std::fprintf(stderr, "sleef_test: expf8 is wrong at an edge\n");
  return right ? 0 : 1;
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::printf("skipped: this processor has no AVX2 and FMA\n");
    return 0;
  }
  return Check(kFloatCases) + Check(kDoubleCases) + CheckEdges();
}
