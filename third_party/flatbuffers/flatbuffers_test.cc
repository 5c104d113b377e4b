// SPDX-License-Identifier: Apache-2.0
// Tests that a generated header works with flatbuffers' own headers.
#include <cstdio>

#include "flatbuffers/flatbuffers.h"
#include "third_party/flatbuffers/point_generated.h"

int main() {
  using flatbuffers_test::Colour;
  flatbuffers::FlatBufferBuilder builder;
  const double position[] = {1, 2.5};
  const auto values = builder.CreateVector(position, 2);
  const auto name = builder.CreateString("here");
  builder.Finish(flatbuffers_test::CreatePoint(builder, name, values));

  flatbuffers::Verifier verifier(builder.GetBufferPointer(), builder.GetSize());
  if (!flatbuffers_test::VerifyPointBuffer(verifier)) {
    std::fprintf(stderr, "flatbuffers_test: the buffer is not valid\n");
    return 1;
  }
  auto* point = flatbuffers_test::GetMutablePoint(builder.GetBufferPointer());
  if (point->name()->str() != "here" || point->position()->Get(1) != 2.5 ||
      point->colour() != Colour::Green) {
    std::fprintf(stderr, "flatbuffers_test: the values read back differ\n");
    return 1;
  }
  point->mutable_position()->Mutate(1, 4);
  if (point->position()->Get(1) != 4) {
    std::fprintf(stderr, "flatbuffers_test: a value cannot be changed\n");
    return 1;
  }
  return 0;
}
