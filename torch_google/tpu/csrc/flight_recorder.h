// SPDX-License-Identifier: Apache-2.0
// Records the most recent collectives of this process, to report them if one
// fails.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/collective.h"

namespace torch_google::tpu {

// One collective, send or recv. Times are nanoseconds since the epoch; 0 means
// that the event has not happened.
struct FlightRecord {
  uint64_t id;
  std::string group;
  std::string description;
  std::string name;
  uint64_t sequence;  // the index of the operation in its queue
  bool is_message;
  int rank;  // this process's rank in the group
  int peer;
  std::vector<std::vector<int64_t>> input_sizes, output_sizes;
  std::vector<c10::ScalarType> input_dtypes, output_dtypes;
  int64_t created = 0, started = 0, completed = 0;
  int64_t timeout;
  bool failed = false;
  // The code objects and line numbers of the caller's Python frames, innermost
  // first.
  std::vector<std::pair<PyObject*, int>> frames;

  FlightRecord() = default;
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;
};

// Keeps the last TORCH_FR_BUFFER_SIZE records, 2000 by default, as torch does
// for other backends. If the size is 0, nothing is recorded.
class FlightRecorder {
 public:
  static FlightRecorder& get();

  // Adds a record and returns it, or null if recording is off. The caller must
  // hold the GIL.
  std::shared_ptr<FlightRecord> add(const Collective& collective,
                                    const std::string& group,
                                    const std::string& description, int rank,
                                    uint64_t sequence);
  void start(const std::shared_ptr<FlightRecord>& record);
  void complete(const std::shared_ptr<FlightRecord>& record, bool failed);
  void add_group(const std::string& group, std::vector<int64_t> global_ranks);

  // Returns the records as dictionaries, oldest first, and the groups with
  // their ranks. collectives/flight_recorder.py writes them to a file. The
  // caller must hold the GIL.
  pybind11::tuple describe();

 private:
  FlightRecorder();

  const size_t capacity_;
  std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::deque<std::shared_ptr<FlightRecord>> records_;
  std::map<std::string, std::vector<int64_t>> groups_;
};

}  // namespace torch_google::tpu
