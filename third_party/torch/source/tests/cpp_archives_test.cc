// SPDX-License-Identifier: Apache-2.0
// Tests reading and writing archives by name: hooks open names that have a
// scheme (such as kept://), a file becomes visible once it is complete, and
// local paths bypass the hooks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "caffe2/serialize/file_adapter.h"
#include "caffe2/serialize/inline_container.h"
#include "third_party/torch/source/tests/expect.h"

namespace {

using caffe2::serialize::FileAdapter;
using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;
using caffe2::serialize::ReadAdapterInterface;

std::map<std::string, std::string> kept;

bool IsKept(const std::string& name) { return name.rfind("kept://", 0) == 0; }

class KeptReader : public ReadAdapterInterface {
 public:
  explicit KeptReader(const std::string& name) : text_(kept.at(name)) {}
  size_t size() const override { return text_.size(); }
  size_t read(uint64_t pos, void* buf, size_t n, const char*) const override {
    if (pos >= text_.size()) return 0;
    n = std::min(n, text_.size() - pos);
    memcpy(buf, text_.data() + pos, n);
    return n;
  }

 private:
  const std::string text_;
};

std::shared_ptr<ReadAdapterInterface> Read(const std::string& name) {
  if (!IsKept(name)) return std::make_shared<FileAdapter>(name);
  return std::make_shared<KeptReader>(name);
}

std::function<void()> Write(const std::string& name,
                            std::function<size_t(const void*, size_t)>& write) {
  if (!IsKept(name)) return {};
  const auto text = std::make_shared<std::string>();
  write = [text](const void* data, size_t size) {
    if (data) {
      text->append(static_cast<const char*>(data), size);
    } else {
      text->append(size, '\0');
    }
    return size;
  };
  return [name, text] { kept[name] = *text; };
}

const char kText[] = "the content of the record";

void WriteAndRead(const std::string& name) {
  {
    PyTorchStreamWriter writer(name);
    Expect(writer.archiveName() == "file", "the archive has the wrong name");
    writer.writeRecord("record", kText, sizeof(kText));
    Expect(kept.count(name) == 0, "the file exists too early");
    writer.writeEndOfFile();
  }
  PyTorchStreamReader reader(name);
  const auto [data, size] = reader.getRecord("record");
  Expect(size == sizeof(kText) && memcmp(data.get(), kText, size) == 0,
         name + ": the record has the wrong content");
}

void WhatFailsIsNotThere() {
  caffe2::serialize::open_to_write =
      [](const std::string&, std::function<size_t(const void*, size_t)>& write)
      -> std::function<void()> {
    write = [](const void*, size_t) -> size_t { return 0; };
    return [] { kept["kept://a/broken"] = ""; };
  };
  try {
    PyTorchStreamWriter writer("kept://a/broken");
    writer.writeEndOfFile();
    Expect(false, "a writer that writes nothing did not fail");
  } catch (const std::exception&) {
  }
  Expect(kept.count("kept://a/broken") == 0, "a broken file exists");
}

}  // namespace

int main() {
  const std::string here =
      std::string(getenv("TEST_TMPDIR") ? getenv("TEST_TMPDIR") : "/tmp") +
      "/file.pt";
  WriteAndRead(here);  // No hook is installed yet.
  caffe2::serialize::open_to_read = Read;
  caffe2::serialize::open_to_write = Write;
  WriteAndRead(here);
  WriteAndRead("kept://a/file.pt");
  Expect(kept.size() == 1, "a local file went through the hooks");
  FILE* file = fopen(here.c_str(), "rb");
  Expect(file != nullptr, "a path without a scheme is not a local file");
  if (file) fclose(file);
  WhatFailsIsNotThere();
  return failures;
}
