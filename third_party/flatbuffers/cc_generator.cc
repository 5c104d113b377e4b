// SPDX-License-Identifier: Apache-2.0
// Writes a schema's C++ header, as `flatc --cpp --gen-mutable --scoped-enums`
// does.
// usage: cc_generator SCHEMA HEADER
#include <cstdio>
#include <string>

#include "flatbuffers/code_generator.h"
#include "flatbuffers/flatc.h"
#include "flatbuffers/idl.h"
#include "flatbuffers/util.h"
#include "src/idl_gen_cpp.h"

namespace {

constexpr char kSuffix[] = "_generated.h";

int Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

}  // namespace

// flatbuffers' C++ generator calls these functions, which the program must
// define.
namespace flatbuffers {

void LogCompilerWarn(const std::string& warning) {
  std::fprintf(stderr, "%s\n", warning.c_str());
}

void LogCompilerError(const std::string& error) { LogCompilerWarn(error); }

// The generator calls this function only for flatc's --grpc option, which this
// program lacks.
bool GenerateCppGRPC(const Parser&, const std::string&, const std::string&) {
  return false;
}

}  // namespace flatbuffers

int main(int argc, char** argv) {
  if (argc != 3) return Fail("usage: cc_generator SCHEMA HEADER");
  const std::string schema = argv[1], header = argv[2];
  const size_t name = header.rfind('/') + 1;
  const size_t suffix = header.rfind(kSuffix);
  if (suffix == std::string::npos || suffix < name) {
    return Fail(header + ": does not end in NAME" + kSuffix +
                ". Rename the header");
  }

  std::string text;
  if (!flatbuffers::LoadFile(schema.c_str(), false, &text)) {
    return Fail(schema + ": cannot be read. Name a schema");
  }
  flatbuffers::IDLOptions options;
  options.lang_to_generate = flatbuffers::IDLOptions::kCpp;
  options.mutable_buffer = true;
  options.scoped_enums = true;
  options.prefixed_enums = false;
  flatbuffers::Parser parser(options);
  if (!parser.Parse(text.c_str(), nullptr, schema.c_str())) {
    return Fail(parser.error_);
  }
  const auto generator = flatbuffers::NewCppCodeGenerator();
  const auto status = generator->GenerateCode(
      parser, header.substr(0, name), header.substr(name, suffix - name));
  if (status != flatbuffers::CodeGenerator::OK) {
    return Fail(header + ": cannot be written. " + generator->status_detail);
  }
  return 0;
}
