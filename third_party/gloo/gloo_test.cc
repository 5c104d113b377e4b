// SPDX-License-Identifier: Apache-2.0
// Tests collectives. Each rank is a thread; the ranks rendezvous through a
// store and connect over loopback.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gloo/allreduce.h"
#include "gloo/barrier.h"
#include "gloo/broadcast.h"
#include "gloo/config.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/hash_store.h"
#include "gloo/rendezvous/prefix_store.h"
#include "gloo/transport/tcp/device.h"

namespace {

constexpr int kRanks = 3;
constexpr size_t kElements = 100000;

std::string Run(int rank, gloo::rendezvous::Store& store,
                std::shared_ptr<gloo::transport::Device> device) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  gloo::rendezvous::PrefixStore prefixed("test", store);
  context->connectFullMesh(prefixed, device);

  std::vector<float> values(kElements, float(rank + 1));
  gloo::AllreduceOptions allreduce(context);
  allreduce.setOutput(values.data(), values.size());
  allreduce.setReduceFunction(
      [](void* out, const void* left, const void* right, size_t count) {
        gloo::sum<float>(out, left, right, count);
      });
  gloo::allreduce(allreduce);
  for (float value : values) {
    if (value != kRanks * (kRanks + 1) / 2) return "allreduce: a wrong sum";
  }

  std::vector<int> word{rank == 1 ? 42 : 0};
  gloo::BroadcastOptions broadcast(context);
  broadcast.setOutput(word.data(), word.size());
  broadcast.setRoot(1);
  gloo::broadcast(broadcast);
  if (word[0] != 42) return "broadcast: a wrong value";

  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  return "";
}

}  // namespace

int main() {
  static_assert(GLOO_VERSION == 500);
  gloo::transport::tcp::attr loopback("127.0.0.1");
  const auto device = gloo::transport::tcp::CreateDevice(loopback);
  gloo::rendezvous::HashStore store;
  std::vector<std::string> errors(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        errors[rank] = Run(rank, store, device);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  int failures = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank].join();
    if (errors[rank].empty()) continue;
    std::fprintf(stderr, "gloo_test: rank %d: %s\n", rank,
                 errors[rank].c_str());
    ++failures;
  }
  return failures;
}
