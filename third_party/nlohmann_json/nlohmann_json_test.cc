// SPDX-License-Identifier: Apache-2.0
// Tests that JSON can be parsed and written.
#include <cstdio>
#include <string>

#include "nlohmann/json.hpp"

int main() {
  using nlohmann::json;
  const json value = json::parse(R"({"b": [1, 2.5, null], "a": "\u00e4"})");
  if (value.at("b").at(1).get<double>() != 2.5) {
    std::fprintf(stderr, "nlohmann_json_test: b[1] is not 2.5\n");
    return 1;
  }
  if (value.dump() != "{\"a\":\"\xc3\xa4\",\"b\":[1,2.5,null]}") {
    std::fprintf(stderr, "nlohmann_json_test: wrote %s\n",
                 value.dump().c_str());
    return 1;
  }
  try {
    json::parse("{").clear();
  } catch (const json::parse_error&) {
    return 0;
  }
  std::fprintf(stderr, "nlohmann_json_test: '{' was accepted as JSON\n");
  return 1;
}
