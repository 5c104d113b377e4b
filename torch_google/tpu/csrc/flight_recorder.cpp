// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/flight_recorder.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

constexpr size_t kDefaultCapacity = 2000;
constexpr size_t kMaxFrames = 24;

size_t capacity() {
  for (const char* name :
       {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}) {
    if (const char* text = std::getenv(name)) {
      return static_cast<size_t>(std::max(0L, std::strtol(text, nullptr, 10)));
    }
  }
  return kDefaultCapacity;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void describe_tensors(const Tensors& tensors,
                      std::vector<std::vector<int64_t>>& sizes,
                      std::vector<c10::ScalarType>& dtypes) {
  for (const auto& tensor : tensors) {
    sizes.push_back(tensor.sizes().vec());
    dtypes.push_back(tensor.scalar_type());
  }
}

py::list names_of(const std::vector<c10::ScalarType>& dtypes) {
  py::list names;
  for (const auto dtype : dtypes) {
    names.append(c10::toString(dtype));
  }
  return names;
}

// Returns the caller's Python frames, or an empty vector if the thread is not
// running Python code.
std::vector<std::pair<PyObject*, int>> frames() {
  std::vector<std::pair<PyObject*, int>> found;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame && found.size() < kMaxFrames) {
    found.emplace_back(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)),
                       PyFrame_GetLineNumber(frame));
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  return found;
}

}  // namespace

FlightRecord::~FlightRecord() {
  for (const auto& [code, line] : frames) {
    release(code);
  }
}

FlightRecorder::FlightRecorder() : capacity_(capacity()) {}

FlightRecorder& FlightRecorder::get() {
  // Never destroyed, because its records own references to Python objects, and
  // static destructors run after the interpreter has been finalized.
  static auto* instance = new FlightRecorder;
  return *instance;
}

std::shared_ptr<FlightRecord> FlightRecorder::add(
    const Collective& collective, const std::string& group,
    const std::string& description, int rank, uint64_t sequence) {
  if (capacity_ == 0) {
    return nullptr;
  }
  auto record = std::make_shared<FlightRecord>();
  record->group = group;
  record->description = description;
  record->name = collective.name;
  record->sequence = sequence;
  record->is_message = is_message(collective.type);
  record->rank = rank;
  record->peer = collective.peer;
  describe_tensors(collective.inputs, record->input_sizes,
                   record->input_dtypes);
  describe_tensors(collective.outputs, record->output_sizes,
                   record->output_dtypes);
  record->timeout = collective.timeout.count();
  record->created = now();
  record->frames = frames();
  std::lock_guard<std::mutex> lock(mutex_);
  record->id = next_id_++;
  records_.push_back(record);
  if (records_.size() > capacity_) {
    records_.pop_front();
  }
  return record;
}

void FlightRecorder::start(const std::shared_ptr<FlightRecord>& record) {
  if (record) {
    std::lock_guard<std::mutex> lock(mutex_);
    record->started = now();
  }
}

void FlightRecorder::complete(const std::shared_ptr<FlightRecord>& record,
                              bool failed) {
  if (record) {
    std::lock_guard<std::mutex> lock(mutex_);
    record->failed = failed;
    record->completed = failed ? 0 : now();
  }
}

void FlightRecorder::add_group(const std::string& group,
                               std::vector<int64_t> global_ranks) {
  std::lock_guard<std::mutex> lock(mutex_);
  groups_[group] = std::move(global_ranks);
}

py::tuple FlightRecorder::describe() {
  std::deque<std::shared_ptr<FlightRecord>> records;
  std::map<std::string, std::vector<int64_t>> groups;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    records = records_;
    groups = groups_;
  }
  py::list entries;
  for (const auto& record : records) {
    py::list frames;
    for (const auto& [code, line] : record->frames) {
      frames.append(py::make_tuple(py::handle(code), line));
    }
    py::dict entry;
    entry["id"] = record->id;
    entry["group"] = record->group;
    entry["description"] = record->description;
    entry["name"] = record->name;
    entry["sequence"] = record->sequence;
    entry["is_message"] = record->is_message;
    entry["rank"] = record->rank;
    entry["peer"] = record->peer;
    entry["input_sizes"] = record->input_sizes;
    entry["output_sizes"] = record->output_sizes;
    entry["input_dtypes"] = names_of(record->input_dtypes);
    entry["output_dtypes"] = names_of(record->output_dtypes);
    entry["created"] = record->created;
    entry["started"] = record->started;
    entry["completed"] = record->completed;
    entry["timeout"] = record->timeout;
    entry["failed"] = record->failed;
    entry["frames"] = frames;
    entries.append(entry);
  }
  return py::make_tuple(entries, py::cast(groups));
}

}  // namespace torch_google::tpu
