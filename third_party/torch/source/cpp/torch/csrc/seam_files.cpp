// SPDX-License-Identifier: Apache-2.0
// Opens files for torch's C++ archive reader and writer: names with a scheme
// through the hooks in torch/_seam/files.py, local paths directly.
//
// Every function that calls Python acquires the GIL. Errors are thrown as
// Python exceptions, because nearly all callers are Python bindings.

#include <caffe2/serialize/file_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace {

using caffe2::serialize::FileAdapter;
using caffe2::serialize::ReadAdapterInterface;

bool IsPath(const std::string& name) {
  return name.find("://") == std::string::npos;
}

py::object Ask(const char* question) {
  return py::module_::import("torch._seam.files").attr(question);
}

// Owns a Python object. The destructor acquires the GIL.
class Kept {
 public:
  explicit Kept(py::object object) : object_(std::move(object)) {}
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() {
    if (!Py_IsInitialized()) {
      object_.release();
      return;
    }
    py::gil_scoped_acquire gil;
    object_ = py::object();
  }
  py::object& operator*() { return object_; }

 private:
  py::object object_;
};

// A file opened by a hook, which returns a local path or an open binary file.
// Unless Close has been called, the destructor discards what was written.
class Opened {
 public:
  explicit Opened(const py::object& context)
      : context_(context), entered_(context.attr("__enter__")()) {}

  ~Opened() {
    if (!open_ || !Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    try {
      const py::object error = py::module_::import("builtins")
                                   .attr("RuntimeError")("it is incomplete");
      (*context_).attr("__exit__")(py::type::of(error), error, py::none());
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("closing a file of torch");
    }
  }

  py::object& file() { return *entered_; }

  // Closes the file, as Python does at the end of a `with` block that raises no
  // exception.
  void Close() {
    open_ = false;
    (*context_).attr("__exit__")(py::none(), py::none(), py::none());
  }

 private:
  Kept context_;
  Kept entered_;
  bool open_ = true;
};

class SeamReader final : public ReadAdapterInterface {
 public:
  explicit SeamReader(const std::string& name)
      : opened_(Ask("reading")(name, /*mmap=*/false)) {
    py::object& file = opened_.file();
    if (py::isinstance<py::str>(file)) {
      here_ = std::make_unique<FileAdapter>(file.cast<std::string>());
      size_ = here_->size();
      return;
    }
    file.attr("seek")(0, SEEK_END);
    size_ = file.attr("tell")().cast<size_t>();
  }

  ~SeamReader() override {
    here_.reset();
    if (!Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    try {
      opened_.Close();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("closing a file of torch");
    }
  }

  size_t size() const override { return size_; }

  size_t read(uint64_t pos, void* buf, size_t n,
              const char* what) const override {
    if (here_) return here_->read(pos, buf, n, what);
    py::gil_scoped_acquire gil;
    py::object& file = opened_.file();
    file.attr("seek")(pos);
    size_t done = 0;
    while (done < n) {
      const auto rest =
          py::memoryview::from_memory(static_cast<char*>(buf) + done, n - done);
      const auto count = file.attr("readinto")(rest).cast<size_t>();
      if (count == 0) break;
      done += count;
    }
    return done;
  }

 private:
  mutable Opened opened_;
  std::unique_ptr<FileAdapter> here_;
  size_t size_ = 0;
};

class SeamWriter {
 public:
  explicit SeamWriter(const std::string& name)
      : opened_(Ask("writing")(name)), file_(opened_.file()) {
    if (py::isinstance<py::str>(*file_)) {
      *file_ = py::module_::import("io").attr("open")(*file_, "wb");
      own_ = true;
    }
  }

  size_t Write(const void* data, size_t size) {
    py::gil_scoped_acquire gil;
    if (data) {
      (*file_).attr("write")(
          py::memoryview::from_memory(static_cast<const char*>(data), size));
      return size;
    }
    // Write zeros to reserve space, because not every file can seek.
    static const std::vector<char> zeros(1 << 16);
    for (size_t rest = size; rest > 0;) {
      const size_t count = std::min(rest, zeros.size());
      (*file_).attr("write")(py::memoryview::from_memory(zeros.data(), count));
      rest -= count;
    }
    return size;
  }

  void Close() {
    py::gil_scoped_acquire gil;
    if (own_) (*file_).attr("close")();
    opened_.Close();
  }

 private:
  Opened opened_;
  Kept file_;
  bool own_ = false;
};

std::shared_ptr<ReadAdapterInterface> OpenToRead(const std::string& name) {
  if (IsPath(name)) return std::make_shared<FileAdapter>(name);
  py::gil_scoped_acquire gil;
  return std::make_shared<SeamReader>(name);
}

std::function<void()> OpenToWrite(
    const std::string& name,
    std::function<size_t(const void*, size_t)>& write) {
  if (IsPath(name)) return {};
  py::gil_scoped_acquire gil;
  const auto file = std::make_shared<SeamWriter>(name);
  write = [file](const void* data, size_t size) {
    return file->Write(data, size);
  };
  return [file] { file->Close(); };
}

// Installs the functions when torch._C is loaded.
const bool installed = [] {
  caffe2::serialize::open_to_read = OpenToRead;
  caffe2::serialize::open_to_write = OpenToWrite;
  return true;
}();

}  // namespace
