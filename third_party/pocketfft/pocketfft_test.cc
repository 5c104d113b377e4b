// SPDX-License-Identifier: Apache-2.0
// Checks the three transforms that torch calls against the definition of the
// discrete Fourier transform.
#include <cmath>
#include <complex>
#include <cstdio>
#include <vector>

#include "pocketfft_hdronly.h"

namespace {

using Complex = std::complex<double>;

// A small prime, a power of two, a composite number and a large prime: each
// uses a different algorithm.
constexpr size_t kLengths[] = {7, 64, 90, 1009};
constexpr double kTolerance = 1e-11;

bool Close(const std::vector<Complex>& left, const std::vector<Complex>& right,
           const char* what, size_t length) {
  for (size_t i = 0; i < right.size(); ++i) {
    if (std::abs(left[i] - right[i]) > kTolerance * length) {
      std::fprintf(stderr, "pocketfft_test: %s of %zu: element %zu is wrong\n",
                   what, length, i);
      return false;
    }
  }
  return true;
}

bool Check(size_t n) {
  std::vector<double> real(n);
  for (size_t i = 0; i < n; ++i) real[i] = std::sin(0.7 * i * i);
  const std::vector<Complex> input(real.begin(), real.end());
  std::vector<Complex> expected(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = 0; i < n; ++i) {
      expected[k] += std::polar(real[i], -2 * M_PI * double(i * k % n) / n);
    }
  }
  const pocketfft::shape_t shape{n}, axes{0};
  const pocketfft::stride_t complex_stride{sizeof(Complex)};
  const pocketfft::stride_t real_stride{sizeof(double)};
  std::vector<Complex> output(n);
  pocketfft::c2c(shape, complex_stride, complex_stride, axes, true,
                 input.data(), output.data(), 1.0);
  if (!Close(output, expected, "c2c", n)) return false;

  std::vector<Complex> half(n / 2 + 1);
  pocketfft::r2c(shape, real_stride, complex_stride, axes, true, real.data(),
                 half.data(), 1.0);
  expected.resize(half.size());
  if (!Close(half, expected, "r2c", n)) return false;

  std::vector<double> back(n);
  pocketfft::c2r(shape, complex_stride, real_stride, axes, false, half.data(),
                 back.data(), 1.0 / n);
  return Close(std::vector<Complex>(back.begin(), back.end()), input, "c2r", n);
}

}  // namespace

int main() {
  for (size_t length : kLengths) {
    if (!Check(length)) return 1;
  }
  return 0;
}
