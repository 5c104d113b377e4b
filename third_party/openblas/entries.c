// SPDX-License-Identifier: Apache-2.0
// Refers to every BLAS and LAPACK function that torch v2.6.0 calls
// (aten/src/ATen/native/BatchLinearAlgebra.cpp, BlasKernel.cpp, CPUBlas.cpp),
// so that the test does not link if one is missing.
// clang-format off: it would indent each entry more than the previous one.
#define ENTRIES(X) \
  X(caxpy_) \
  X(ccopy_) \
  X(cdotc_) \
  X(cdotu_) \
  X(cgeev_) \
  X(cgels_) \
  X(cgelsd_) \
  X(cgelss_) \
  X(cgelsy_) \
  X(cgemm_) \
  X(cgeqrf_) \
  X(cgesdd_) \
  X(cgetrf_) \
  X(cgetrs_) \
  X(cheevd_) \
  X(chetrf_) \
  X(chetrs_) \
  X(cpotrf_) \
  X(cpotri_) \
  X(cpotrs_) \
  X(csytrf_) \
  X(csytrs_) \
  X(ctrsm_) \
  X(cungqr_) \
  X(cunmqr_) \
  X(daxpy_) \
  X(dcopy_) \
  X(ddot_) \
  X(dgeev_) \
  X(dgels_) \
  X(dgelsd_) \
  X(dgelss_) \
  X(dgelsy_) \
  X(dgemm_) \
  X(dgemv_) \
  X(dgeqrf_) \
  X(dgesdd_) \
  X(dgetrf_) \
  X(dgetrs_) \
  X(dorgqr_) \
  X(dormqr_) \
  X(dpotrf_) \
  X(dpotri_) \
  X(dpotrs_) \
  X(dscal_) \
  X(dsyevd_) \
  X(dsytrf_) \
  X(dsytrs_) \
  X(dtrsm_) \
  X(saxpy_) \
  X(scopy_) \
  X(sdot_) \
  X(sgeev_) \
  X(sgels_) \
  X(sgelsd_) \
  X(sgelss_) \
  X(sgelsy_) \
  X(sgemm_) \
  X(sgemv_) \
  X(sgeqrf_) \
  X(sgesdd_) \
  X(sgetrf_) \
  X(sgetrs_) \
  X(sorgqr_) \
  X(sormqr_) \
  X(spotrf_) \
  X(spotri_) \
  X(spotrs_) \
  X(sscal_) \
  X(ssyevd_) \
  X(ssytrf_) \
  X(ssytrs_) \
  X(strsm_) \
  X(zaxpy_) \
  X(zcopy_) \
  X(zdotc_) \
  X(zdotu_) \
  X(zgeev_) \
  X(zgels_) \
  X(zgelsd_) \
  X(zgelss_) \
  X(zgelsy_) \
  X(zgemm_) \
  X(zgeqrf_) \
  X(zgesdd_) \
  X(zgetrf_) \
  X(zgetrs_) \
  X(zheevd_) \
  X(zhetrf_) \
  X(zhetrs_) \
  X(zpotrf_) \
  X(zpotri_) \
  X(zpotrs_) \
  X(zsytrf_) \
  X(zsytrs_) \
  X(ztrsm_) \
  X(zungqr_) \
  X(zunmqr_)
// clang-format on

#define DECLARE(name) void name(void);
ENTRIES(DECLARE)

#define ADDRESS(name) name,
void (*const kTorchEntries[])(void) = {ENTRIES(ADDRESS) 0};
