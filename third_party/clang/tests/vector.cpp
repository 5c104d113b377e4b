// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

float dot(const float* left, const float* right) {
  float products[8];
  __m256 zero = _mm256_setzero_ps();
  _mm256_storeu_ps(products, _mm256_fmadd_ps(_mm256_loadu_ps(left),
                                             _mm256_loadu_ps(right), zero));
  float sum = 0;
  for (float product : products) sum += product;
  return sum;
}
