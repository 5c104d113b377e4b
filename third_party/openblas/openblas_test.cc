// SPDX-License-Identifier: Apache-2.0
// Tests BLAS products and LAPACK decompositions, called as torch calls them, by
// checking the equations that define their results.
#include <dirent.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdio>
#include <thread>
#include <vector>

using Complex = std::complex<double>;
using Complex32 = std::complex<float>;

extern "C" {
extern void (*const kTorchEntries[])();
void sgemm_(const char*, const char*, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int*, const float* b,
            const int*, const float* beta, float* c, const int*);
void dgemm_(const char*, const char*, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int*, const double* b,
            const int*, const double* beta, double* c, const int*);
void cblas_zdotc_sub(int n, const void* x, int, const void* y, int,
                     void* result);
Complex zdotc_(const int* n, const Complex* x, const int*, const Complex* y,
               const int*);
float sdot_(const int* n, const float* x, const int*, const float* y,
            const int*);
void dgesdd_(const char* job, int* m, int* n, double* a, int*, double* s,
             double* u, int*, double* vt, int*, double* work, int* size,
             int* iwork, int* info);
void cgesdd_(const char* job, int* m, int* n, Complex32* a, int*, float* s,
             Complex32* u, int*, Complex32* vt, int*, Complex32* work,
             int* size, float* rwork, int* iwork, int* info);
void dgeev_(const char* left, const char* right, int* n, double* a, int*,
            double* wr, double* wi, double* vl, int*, double* vr, int*,
            double* work, int* size, int* info);
void cgeev_(const char* left, const char* right, int* n, Complex32* a, int*,
            Complex32* w, Complex32* vl, int*, Complex32* vr, int*,
            Complex32* work, int* size, float* rwork, int* info);
void zheevd_(const char* job, const char* uplo, int* n, Complex* a, int*,
             double* w, Complex* work, int* size, double* rwork, int* rsize,
             int* iwork, int* isize, int* info);
void dgelsd_(int* m, int* n, int* nrhs, double* a, int*, double* b, int*,
             double* s, double* rcond, int* rank, double* work, int* size,
             int* iwork, int* info);
void zgetrf_(int* m, int* n, Complex* a, int*, int* pivots, int* info);
void cpotrf_(const char* uplo, int* n, Complex32* a, int*, int* info);
void cpotri_(const char* uplo, int* n, Complex32* a, int*, int* info);
void zgetrs_(const char*, int* n, int* nrhs, Complex* a, int*, int* pivots,
             Complex* b, int*, int* info);
}

namespace {

std::atomic<int> failures = 0;

void Expect(const char* what, double error, double bound) {
  std::printf("%s: error %.2g\n", what, error);
  if (error <= bound) return;  // A NaN fails this comparison.
  std::fprintf(stderr, "openblas_test: %s: error %g, allowed %g\n", what, error,
               bound);
  ++failures;
}

void ExpectInfo(const char* what, int info) {
  if (info == 0) return;
  std::fprintf(stderr, "openblas_test: %s: info %d\n", what, info);
  ++failures;
}

double Number(int i) { return std::sin(1.0 + 0.37 * i * i); }

template <class T>
std::vector<T> Real(int count) {
  std::vector<T> values(count);
  for (int i = 0; i < count; ++i) values[i] = T(Number(i));
  return values;
}

template <class T>
std::vector<std::complex<T>> Both(int count) {
  std::vector<std::complex<T>> values(count);
  for (int i = 0; i < count; ++i) values[i] = {T(Number(i)), T(Number(i + 7))};
  return values;
}

// Returns the largest difference between corresponding elements of C and the
// product A B. The matrices are in column-major order, and k is the inner
// dimension.
template <class T>
double ProductError(const std::vector<T>& a, const std::vector<T>& b,
                    const std::vector<T>& c, int m, int n, int k) {
  double worst = 0;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      T sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i + l * m] * b[l + j * k];
      const double error = std::abs(sum - c[i + j * m]);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

int Threads() {
  int count = -2;  // The directory also lists "." and "..".
  DIR* tasks = opendir("/proc/self/task");
  while (readdir(tasks)) ++count;
  closedir(tasks);
  return count;
}

void CheckProducts() {
  const int m = 130, n = 70, k = 95;
  const float one = 1, zero = 0;
  const auto a = Real<float>(m * k), b = Real<float>(k * n);
  std::vector<float> c(m * n, NAN);
  sgemm_("N", "N", &m, &n, &k, &one, a.data(), &m, b.data(), &k, &zero,
         c.data(), &m);
  Expect("sgemm", ProductError(a, b, c, m, n, k), 1e-4);

  const int large = 512;
  const double one_d = 1, zero_d = 0;
  const auto x = Real<double>(large * large);
  std::vector<double> y(large * large, NAN);
  dgemm_("N", "N", &large, &large, &large, &one_d, x.data(), &large, x.data(),
         &large, &zero_d, y.data(), &large);
  Expect("dgemm on threads", ProductError(x, x, y, large, large, large), 1e-10);

  const int step = 1, count = 50;
  const auto u = Both<double>(count), v = Both<double>(2 * count);
  Complex expected = 0, result = 0;
  for (int i = 0; i < count; ++i) expected += std::conj(u[i]) * v[i];
  cblas_zdotc_sub(count, u.data(), step, v.data(), step, &result);
  Expect("cblas_zdotc_sub", std::abs(result - expected), 1e-12);
  result = zdotc_(&count, u.data(), &step, v.data(), &step);
  Expect("zdotc", std::abs(result - expected), 1e-12);
  double dot = 0;
  for (int i = 0; i < m; ++i) dot += double(a[i]) * a[i];
  Expect("sdot", std::fabs(sdot_(&m, a.data(), &step, a.data(), &step) - dot),
         1e-4);
}

void CheckSingularValues() {
  int m = 60, n = 40, info = 0, size = 200000;
  std::vector<int> iwork(8 * n);
  {
    const auto a = Real<double>(m * n);
    auto copy = a;
    std::vector<double> s(n), u(m * n), vt(n * n), work(size);
    dgesdd_("S", &m, &n, copy.data(), &m, s.data(), u.data(), &m, vt.data(), &n,
            work.data(), &size, iwork.data(), &info);
    ExpectInfo("dgesdd", info);
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) u[i + j * m] *= s[j];
    }
    Expect("dgesdd", ProductError(u, vt, a, m, n, n), 1e-12);
    Expect("dgesdd's order",
           std::is_sorted(s.rbegin(), s.rend()) && s.back() >= 0 ? 0 : 1, 0);
  }
  const auto a = Both<float>(m * n);
  auto copy = a;
  std::vector<float> s(n), rwork(40000);
  std::vector<Complex32> u(m * n), vt(n * n), work(size);
  cgesdd_("S", &m, &n, copy.data(), &m, s.data(), u.data(), &m, vt.data(), &n,
          work.data(), &size, rwork.data(), iwork.data(), &info);
  ExpectInfo("cgesdd", info);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) u[i + j * m] *= s[j];
  }
  Expect("cgesdd", ProductError(u, vt, a, m, n, n), 1e-4);
}

void CheckEigenvalues() {
  // n is large enough that LAPACK uses its multishift QR algorithm.
  int n = 100, info = 0, size = 200000;
  {
    auto a = Real<double>(n * n);
    double trace = 0, sum = 0;
    for (int i = 0; i < n; ++i) trace += a[i + i * n];
    std::vector<double> wr(n), wi(n), v(n * n), work(size);
    dgeev_("N", "V", &n, a.data(), &n, wr.data(), wi.data(), nullptr, &n,
           v.data(), &n, work.data(), &size, &info);
    ExpectInfo("dgeev", info);
    for (double value : wr) sum += value;
    Expect("dgeev's sum", std::fabs(sum - trace), 1e-11);
  }
  {
    const auto a = Both<float>(n * n);
    auto copy = a;
    std::vector<float> rwork(2 * n);
    std::vector<Complex32> w(n), v(n * n), work(size);
    cgeev_("N", "V", &n, copy.data(), &n, w.data(), nullptr, &n, v.data(), &n,
           work.data(), &size, rwork.data(), &info);
    ExpectInfo("cgeev", info);
    auto scaled = v;
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) scaled[i + j * n] *= w[j];
    }
    Expect("cgeev", ProductError(a, v, scaled, n, n, n), 1e-3);
  }
  auto a = Both<double>(n * n);
  for (int j = 0; j < n; ++j) {
    a[j + j * n].imag(0);
    for (int i = 0; i < j; ++i) a[i + j * n] = std::conj(a[j + i * n]);
  }
  auto v = a;
  std::vector<double> w(n), rwork(size);
  std::vector<Complex> work(size);
  std::vector<int> iwork(10 * n);
  int isize = 10 * n;
  zheevd_("V", "L", &n, v.data(), &n, w.data(), work.data(), &size,
          rwork.data(), &size, iwork.data(), &isize, &info);
  ExpectInfo("zheevd", info);
  auto scaled = v;
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) scaled[i + j * n] *= w[j];
  }
  Expect("zheevd", ProductError(a, v, scaled, n, n, n), 1e-11);
}

void CheckSolvers() {
  int n = 50, one = 1, info = 0, size = 100000;
  {
    const auto a = Both<double>(n * n), b = Both<double>(n);
    auto lu = a, x = b;
    std::vector<int> pivots(n);
    zgetrf_(&n, &n, lu.data(), &n, pivots.data(), &info);
    ExpectInfo("zgetrf", info);
    zgetrs_("N", &n, &one, lu.data(), &n, pivots.data(), x.data(), &n, &info);
    ExpectInfo("zgetrs", info);
    Expect("zgetrs", ProductError(a, x, b, n, 1, n), 1e-10);
  }
  {
    // a is positive definite and well-conditioned.
    std::vector<Complex32> a(n * n), unit(n * n);
    const auto b = Both<float>(n * n);
    for (int j = 0; j < n; ++j) {
      unit[j + j * n] = 1;
      for (int i = 0; i < n; ++i) {
        for (int k = 0; k < n; ++k) {
          a[i + j * n] += b[i + k * n] * std::conj(b[j + k * n]) / float(n);
        }
      }
      a[j + j * n] += 1;
    }
    auto inverse = a;
    cpotrf_("L", &n, inverse.data(), &n, &info);
    ExpectInfo("cpotrf", info);
    cpotri_("L", &n, inverse.data(), &n, &info);
    ExpectInfo("cpotri", info);
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < j; ++i) {
        inverse[i + j * n] = std::conj(inverse[j + i * n]);
      }
    }
    Expect("cpotri", ProductError(a, inverse, unit, n, n, n), 1e-4);
  }
  // The residual of a least-squares solution is orthogonal to the columns of a.
  int m = 80, rank = 0;
  const auto a = Real<double>(m * n), b = Real<double>(m);
  auto copy = a, x = b;
  double rcond = -1;
  std::vector<double> s(n), work(size), residual = b;
  std::vector<int> iwork(size);
  dgelsd_(&m, &n, &one, copy.data(), &m, x.data(), &m, s.data(), &rcond, &rank,
          work.data(), &size, iwork.data(), &info);
  ExpectInfo("dgelsd", info);
  Expect("dgelsd's rank", std::abs(rank - n), 0);
  double worst = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) residual[i] -= a[i + j * m] * x[j];
  }
  for (int j = 0; j < n; ++j) {
    double dot = 0;
    for (int i = 0; i < m; ++i) dot += a[i + j * m] * residual[i];
    worst = std::max(worst, std::fabs(dot));
  }
  Expect("dgelsd", worst, 1e-11);
}

}  // namespace

int main() {
  Expect("an entry without an address", kTorchEntries[0] ? 0 : 1, 0);
  Expect("threads before the first product", Threads() - 1, 0);
  CheckProducts();
  CheckSingularValues();
  CheckEigenvalues();
  CheckSolvers();
  // LAPACK must not keep state between calls, because torch decomposes batches
  // on several threads.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(CheckEigenvalues);
  for (std::thread& thread : threads) thread.join();
  return failures;
}
