// SPDX-License-Identifier: Apache-2.0
// Tests pybind11 with a built-in module, because torch's C++ module is built in
// if a program is linked statically. usage: pybind11_test STDLIB_DIRECTORY
#include "pybind11/pybind11.h"

#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "pybind11/embed.h"
#include "pybind11/functional.h"
#include "pybind11/stl.h"

namespace py = pybind11;

namespace {

class Counter {
 public:
  void Add(const std::vector<int>& values) {
    if (values.empty()) throw std::invalid_argument("nothing to add");
    sum_ = std::accumulate(values.begin(), values.end(), sum_);
  }
  int sum() const { return sum_; }

 private:
  int sum_ = 0;
};

constexpr char kProgram[] = R"(
import counting
counter = counting.Counter()
counter.add([1, 2, 3])
assert counter.sum == 6
assert counting.twice(lambda x: x + 1, 5) == 7
try:
    counter.add([])
except ValueError as error:
    assert str(error) == 'nothing to add'
else:
    raise AssertionError('no error')
)";

}  // namespace

PYBIND11_EMBEDDED_MODULE(counting, module) {
  py::class_<Counter>(module, "Counter")
      .def(py::init<>())
      .def("add", &Counter::Add)
      .def_property_readonly("sum", &Counter::sum);
  module.def("twice", [](const std::function<int(int)>& function, int value) {
    return function(function(value));
  });
}

int main(int argc, char** argv) {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 0;
  config.module_search_paths_set = 1;
  wchar_t* stdlib = Py_DecodeLocale(argc > 1 ? argv[1] : "", nullptr);
  PyStatus status =
      PyWideStringList_Append(&config.module_search_paths, stdlib);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
  PyConfig_Clear(&config);

  try {
    py::exec(kProgram);
  } catch (const py::error_already_set& error) {
    std::fprintf(stderr, "pybind11_test: %s\n", error.what());
    return 1;
  }
  return 0;
}
