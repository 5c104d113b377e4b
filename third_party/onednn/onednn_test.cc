// SPDX-License-Identifier: Apache-2.0
// Compares oneDNN's results with plain loops, on one thread and with a pool of
// two. The environment variable ONEDNN_MAX_CPU_ISA selects the kernels.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "dnnl.hpp"
#include "thread_pool.h"

namespace {

using dnnl::memory;

int failures = 0;
std::atomic<int> parallel_runs{0};

void Expect(const char* what, double error, double bound) {
  std::printf("%s: error %g\n", what, error);
  if (error <= bound) return;
  std::fprintf(stderr, "onednn_test: %s: error %g, expected at most %g\n", what,
               error, bound);
  ++failures;
}

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::vector<float> Values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = float(seed >> 8) / float(1 << 24) - 0.5f;
  }
  return values;
}

double MaxError(const std::vector<float>& left,
                const std::vector<float>& right) {
  double error = left.size() == right.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    error = std::max(error, std::fabs(double(left[i]) - right[i]));
  }
  return error;
}

memory Plain(const memory::dims& dims, memory::format_tag tag, float* data) {
  return memory({dims, memory::data_type::f32, tag}, Engine(), data);
}

// Returns `from` in the layout and type `desc`.
memory Reordered(memory from, const memory::desc& desc) {
  dnnl::stream stream(Engine());
  memory to(desc, Engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return to;
}

// A product of an m x k matrix by a k x n matrix.
double ProductError(memory::data_type type) {
  constexpr int kM = 37, kK = 129, kN = 75;
  auto a = Values(kM * kK, 1), b = Values(kK * kN, 2);
  std::vector<float> expected(kM * kN), result(kM * kN);
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      for (int k = 0; k < kK; ++k) {
        expected[i * kN + j] += a[i * kK + k] * b[k * kN + j];
      }
    }
  }
  const auto ab = memory::format_tag::ab;
  memory::desc a_desc({kM, kK}, type, ab), b_desc({kK, kN}, type, ab);
  memory a_memory = Reordered(Plain({kM, kK}, ab, a.data()), a_desc);
  memory b_memory = Reordered(Plain({kK, kN}, ab, b.data()), b_desc);
  memory out = Plain({kM, kN}, ab, result.data());
  dnnl::stream stream(Engine());
  dnnl::matmul({Engine(), a_desc, b_desc, out.get_desc()})
      .execute(stream, {{DNNL_ARG_SRC, a_memory},
                        {DNNL_ARG_WEIGHTS, b_memory},
                        {DNNL_ARG_DST, out}});
  stream.wait();
  return MaxError(result, expected);
}

// A convolution of 3 x 3 with padding, followed by ReLU, in the layout that
// oneDNN chooses.
struct Convolution {
  static constexpr int kBatch = 3, kIn = 5, kOut = 19, kSize = 14;
  std::vector<float> image = Values(kBatch * kIn * kSize * kSize, 3);
  std::vector<float> weights = Values(kOut * kIn * 9, 4);
  std::vector<float> bias = Values(kOut, 5);
  std::vector<float> result =
      std::vector<float>(kBatch * kOut * kSize * kSize, 0);

  std::vector<float> Expected() const {
    std::vector<float> expected(result.size());
    for (int b = 0; b < kBatch; ++b) {
      for (int o = 0; o < kOut; ++o) {
        for (int y = 0; y < kSize; ++y) {
          for (int x = 0; x < kSize; ++x) {
            float sum = bias[o];
            for (int i = 0; i < kIn; ++i) sum += Window(b, o, i, y, x);
            expected[((b * kOut + o) * kSize + y) * kSize + x] =
                std::max(sum, 0.0f);
          }
        }
      }
    }
    return expected;
  }

  float Window(int b, int o, int i, int y, int x) const {
    float sum = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int row = y + dy, column = x + dx;
        if (std::min(row, column) < 0 || std::max(row, column) >= kSize) {
          continue;
        }
        sum += image[((b * kIn + i) * kSize + row) * kSize + column] *
               weights[(o * kIn + i) * 9 + (dy + 1) * 3 + dx + 1];
      }
    }
    return sum;
  }

  void Run(memory::data_type type) {
    const auto any = memory::format_tag::any, nchw = memory::format_tag::nchw;
    memory::dims in = {kBatch, kIn, kSize, kSize}, kernel = {kOut, kIn, 3, 3};
    memory::dims out = {kBatch, kOut, kSize, kSize};
    dnnl::primitive_attr attributes;
    dnnl::post_ops relu;
    relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(relu);
    const dnnl::convolution_forward::primitive_desc desc(
        Engine(), dnnl::prop_kind::forward_inference,
        dnnl::algorithm::convolution_direct, {in, type, any},
        {kernel, type, any}, {{kOut}, memory::data_type::f32, any},
        {out, type, any}, {1, 1}, {1, 1}, {1, 1}, attributes);
    std::printf("convolution: %s\n", desc.impl_info_str());
    memory result_memory(desc.dst_desc(), Engine());
    dnnl::stream stream(Engine());
    dnnl::convolution_forward(desc).execute(
        stream,
        {{DNNL_ARG_SRC,
          Reordered(Plain(in, nchw, image.data()), desc.src_desc())},
         {DNNL_ARG_WEIGHTS,
          Reordered(Plain(kernel, memory::format_tag::oihw, weights.data()),
                    desc.weights_desc())},
         {DNNL_ARG_BIAS, Plain({kOut}, memory::format_tag::x, bias.data())},
         {DNNL_ARG_DST, result_memory}});
    stream.wait();
    memory plain =
        Reordered(result_memory, {out, memory::data_type::f32, nchw});
    std::memcpy(result.data(), plain.get_data_handle(),
                result.size() * sizeof(float));
  }
};

void CheckSoftmax() {
  constexpr int kRows = 7, kColumns = 33;
  auto values = Values(kRows * kColumns, 6);
  std::vector<float> expected(values.size()), result(values.size());
  for (int i = 0; i < kRows; ++i) {
    float sum = 0;
    for (int j = 0; j < kColumns; ++j)
      sum += std::exp(values[i * kColumns + j]);
    for (int j = 0; j < kColumns; ++j) {
      expected[i * kColumns + j] = std::exp(values[i * kColumns + j]) / sum;
    }
  }
  const auto ab = memory::format_tag::ab;
  memory in = Plain({kRows, kColumns}, ab, values.data());
  memory out = Plain({kRows, kColumns}, ab, result.data());
  dnnl::stream stream(Engine());
  dnnl::softmax_forward({Engine(), dnnl::prop_kind::forward_inference,
                         dnnl::algorithm::softmax_accurate, in.get_desc(),
                         out.get_desc(), 1})
      .execute(stream, {{DNNL_ARG_SRC, in}, {DNNL_ARG_DST, out}});
  stream.wait();
  Expect("softmax", MaxError(result, expected), 1e-6);
}

bool HasBfloat16() {
  return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
}

void CheckAll() {
  Expect("matmul", ProductError(memory::data_type::f32), 1e-5);
  Convolution convolution;
  convolution.Run(memory::data_type::f32);
  Expect("convolution", MaxError(convolution.result, convolution.Expected()),
         1e-5);
  CheckSoftmax();
  if (!HasBfloat16()) {
    std::printf("bfloat16: skipped, no instructions for it are in use\n");
    return;
  }
  // bfloat16 rounds each input to a relative error of 1/256.
  Expect("bfloat16 matmul", ProductError(memory::data_type::bf16), 2e-2);
  convolution.Run(memory::data_type::bf16);
  Expect("bfloat16 convolution",
         MaxError(convolution.result, convolution.Expected()), 2e-2);
}

void RunOnTwoThreads(int count, const std::function<void(int)>& task) {
  ++parallel_runs;
  std::thread other([&] {
    for (int i = 1; i < count; i += 2) task(i);
  });
  for (int i = 0; i < count; i += 2) task(i);
  other.join();
}

}  // namespace

int main() {
  CheckAll();
  onednn_threads::SetPool({[] { return 2; }, RunOnTwoThreads});
  CheckAll();
  Expect("the pool is unused", parallel_runs > 0 ? 0 : 1, 0);
  return failures ? 1 : 0;
}
