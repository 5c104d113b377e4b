// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/host_group.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "torch_google/tpu/csrc/header.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;
using c10d::OpType;
using Clock = std::chrono::steady_clock;

// How long a failed rank waits for the other ranks to report their states.
constexpr std::chrono::milliseconds kStatesTimeout{1500};
// How long an idle thread waits for work before it exits.
constexpr std::chrono::seconds kIdleTimeout{10};
// Offset from a message's tag to the tag of its acknowledgement. Users' tags
// must therefore be smaller than this offset.
constexpr int kAcknowledgement = 1 << 30;

std::exception_ptr backend_error(const std::string& message) {
  return std::make_exception_ptr(c10::DistBackendError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message));
}

// Returns the first line of an error message, without the C++ backtrace.
std::string reason_of(const std::exception& error) {
  const auto* known = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      known ? known->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

HostGroup::HostGroup(c10::intrusive_ptr<c10d::Backend> gloo,
                     c10::intrusive_ptr<c10d::Store> store, Names names,
                     std::chrono::milliseconds timeout)
    : gloo_(std::move(gloo)),
      names_(std::move(names)),
#if TORCH_GOOGLE_TORCH_2_6
      store_(std::move(store)),
#else
      // Use a separate connection to the store, because another thread may be
      // waiting for a key on the existing one.
      store_(store->clone()),
#endif
      timeout_(timeout) {
  FlightRecorder::get().add_group(names_.group, names_.global_ranks);
}

std::chrono::milliseconds HostGroup::timeout() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return timeout_;
}

void HostGroup::set_timeout(std::chrono::milliseconds timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  timeout_ = timeout;
}

void HostGroup::set_description(const std::string& description) {
  std::lock_guard<std::mutex> lock(mutex_);
  description_ = description;
}

std::string HostGroup::description() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return description_.empty() || description_ == "undefined" ? names_.group
                                                             : description_;
}

uint64_t HostGroup::sequence() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = lanes_.find(LaneKey{OpType::UNKNOWN, -1, 0});
  return found == lanes_.end() ? 0 : found->second.next_sequence;
}

void HostGroup::throw_broken() const {
  std::rethrow_exception(backend_error(broken_));
}

std::shared_ptr<Arrival> HostGroup::post(Collective collective, Prepare prepare,
                                         std::shared_ptr<int> source,
                                         std::string layout) {
  Job job;
  std::exception_ptr refused;
  try {
    job.agreement = agreement_of(collective, rank(), size());
    if (is_message(collective.type)) {
      TORCH_CHECK_VALUE(
          collective.tag >= 0 && collective.tag < kAcknowledgement,
          "tpu: torch.distributed: ", collective.name, ": the tag is ",
          collective.tag, ", but must be in the range from 0 to ",
          kAcknowledgement - 1);
    }
  } catch (const c10::Error& error) {
    if (is_message(collective.type)) {
      throw;
    }
    job.refusal = reason_of(error);
    refused = std::current_exception();
  }
  LaneKey key{OpType::UNKNOWN, -1, 0};
  if (is_message(collective.type)) {
    key = {collective.type, collective.peer, collective.tag};
  }
  const std::weak_ptr<HostGroup> self = weak_from_this();
  job.arrival = std::make_shared<Arrival>([self] {
    if (const auto group = self.lock()) {
      group->poll();
    }
  });
  job.collective = std::move(collective);
  job.prepare = std::move(prepare);
  job.source = std::move(source);
  job.layout = std::move(layout);
  const auto arrival = job.arrival;
  const auto shown = description();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.empty()) {
      throw_broken();
    }
    if (job.collective.timeout == c10d::kUnsetTimeout) {
      job.collective.timeout = timeout_;
    }
    std::erase_if(pending_, [](const std::weak_ptr<Arrival>& other) {
      const auto held = other.lock();
      return !held || held->is_done();
    });
    pending_.push_back(arrival);
    auto& lane = lanes_[key];
    job.sequence = lane.next_sequence++;
    if (!job.layout.empty()) {
      job.agreement.common += " on the device";
      job.turn = std::make_unique<Turn>();
    }
    job.record = FlightRecorder::get().add(job.collective, names_.group, shown,
                                           rank(), job.sequence);
    lane.jobs.push_back(std::move(job));
    if (!lane.has_thread) {
      lane.has_thread = true;
      std::thread([group = shared_from_this(), key] {
        group->work(key);
      }).detach();
    }
  }
  queued_.notify_all();
  if (refused) {
    std::rethrow_exception(refused);
  }
  return arrival;
}

void HostGroup::work(LaneKey key) {
  // Copy tensors in this thread only. Otherwise, OpenMP would start a team of
  // threads.
  const c10::ParallelGuard alone(true);
  const at::AutoDispatchBelowADInplaceOrView below;
  for (;;) {
    Job job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      auto& lane = lanes_[key];
      lane.current.clear();
      queued_.wait_for(lock, kIdleTimeout,
                       [&] { return closed_ || !lane.jobs.empty(); });
      if (lane.jobs.empty()) {
        lane.has_thread = false;
        return;
      }
      job = std::move(lane.jobs.front());
      lane.jobs.pop_front();
      lane.current = state_of(job);
    }
    if (!job.arrival->is_done()) {
      FlightRecorder::get().start(job.record);
      run_job(job);
      FlightRecorder::get().complete(job.record,
                                     job.arrival->error() != nullptr);
    }
  }
}

// If the ranks disagree, or the computation of an input failed, only this job
// fails. Any other error means that the connection failed, and breaks the
// group.
void HostGroup::run_job(Job& job) {
  try {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!broken_.empty()) {
        throw_broken();
      }
    }
    if (job.collective.type == OpType::SEND) {
      run_send(job);
    } else if (is_message(job.collective.type)) {
      run_recv(job);
    } else {
      Results results;
      std::exception_ptr failed;
      if (job.refusal.empty()) {
        try {
          results = job.prepare(job.collective);
        } catch (const std::exception& error) {
          // Take part in the collective anyway, so that the other ranks learn
          // of the error instead of waiting for this rank.
          job.refusal = "an input has failed: " + reason_of(error);
          failed = std::current_exception();
        }
      }
      try {
        run_collective(job, std::move(results));
      } catch (const c10::DistBackendError&) {
        job.arrival->fail(failed ? failed : std::current_exception());
      }
    }
  } catch (const c10::DistBackendError&) {
    job.arrival->fail(std::current_exception());
  } catch (const std::exception& error) {
    fail(state_of(job), reason_of(error));
    job.arrival->fail(std::current_exception());
  }
}

std::string HostGroup::state_of(const Job& job) const {
  std::ostringstream out;
  out << job.agreement.text;
  if (job.agreement.text.empty()) {
    out << job.collective.name;
  }
  if (is_message(job.collective.type)) {
    out << (job.collective.type == OpType::SEND ? " to " : " from ");
    if (job.collective.peer < 0) {
      out << "any rank";
    } else {
      out << "rank " << job.collective.peer;
    }
    out << ", tag " << job.collective.tag << ", message ";
  } else {
    out << ", collective ";
  }
  out << job.sequence;
  return out.str();
}

HostGroup::Exchanged HostGroup::exchange(const Job& job,
                                         const Tensor& payload) {
  const auto& agreement = job.agreement;
  const int ranks = size();
  const int64_t table = 2 * static_cast<int64_t>(sizeof(int64_t)) * ranks;
  const int64_t slot = static_cast<int64_t>(sizeof(Header)) +
                       std::max(inline_bytes(ranks), table);
  Tensor own = at::zeros({slot}, at::kByte);
  const auto header =
      header_of(job.sequence, agreement.common,
                job.refusal.empty() ? agreement.text : job.refusal,
                !job.refusal.empty(), 0, job.layout);
  auto* start = static_cast<char*>(own.data_ptr());
  std::memcpy(start, &header, sizeof(header));
  if (payload.defined()) {
    std::memcpy(start + sizeof(header), payload.const_data_ptr(),
                payload.numel());
  } else {
    std::memcpy(start + sizeof(header), agreement.sends.data(),
                agreement.sends.size() * sizeof(int64_t));
    std::memcpy(start + sizeof(header) + table / 2, agreement.expects.data(),
                agreement.expects.size() * sizeof(int64_t));
  }
  Tensor all = at::empty({slot * ranks}, at::kByte);
  c10d::AllgatherOptions options;
  options.timeout = job.collective.timeout;
  wait(gloo_->_allgather_base(all, own, options));

  std::vector<Header> headers;
  Exchanged exchanged;
  std::vector<const int64_t*> tables;
  bool agree = true;
  for (int i = 0; i < ranks; ++i) {
    const Tensor part = all.narrow(0, slot * i, slot);
    headers.push_back(read_header(part));
    agree = agree && !headers.back().refused &&
            headers.back().hash == headers[0].hash &&
            headers.back().sequence == headers[0].sequence;
    exchanged.same_layout =
        exchanged.same_layout && headers.back().layout == headers[0].layout;
    exchanged.payloads.push_back(part.narrow(
        0, sizeof(Header), payload.defined() ? payload.numel() : 0));
    tables.push_back(reinterpret_cast<const int64_t*>(
        static_cast<const char*>(part.const_data_ptr()) + sizeof(Header)));
  }
  std::ostringstream sizes;
  if (agree && !agreement.sends.empty()) {
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        const int64_t sent = tables[from][to];
        const int64_t expected = tables[to][ranks + from];
        exchanged.largest = std::max(exchanged.largest, sent);
        if (sent != expected) {
          agree = false;
          sizes << "\n  rank " << names_.global_ranks[from] << " sends " << sent
                << " bytes to rank " << names_.global_ranks[to]
                << ", which expects " << expected;
        }
      }
    }
  }
  if (agree) {
    return exchanged;
  }
  std::ostringstream out;
  out << "tpu: torch.distributed: the ranks of group '" << description()
      << "' disagree in collective " << job.sequence << ":";
  for (int i = 0; i < ranks; ++i) {
    out << "\n  rank " << names_.global_ranks[i] << ": "
        << (headers[i].refused ? "refused: " : "") << text_of(headers[i]);
  }
  out << sizes.str()
      << "\nNo data was moved, and the group can still be used. Call the same "
         "collectives in the same order, with matching tensors, on all ranks";
  std::rethrow_exception(backend_error(out.str()));
}

void HostGroup::deliver(Job& job, Results results) {
  for (const auto& [view, output] : results.copies) {
    view.copy_(output);
  }
  job.arrival->deliver(std::move(results.storages));
}

void HostGroup::run_collective(Job& job, Results results) {
  const auto& collective = job.collective;
  const int64_t small = job.refusal.empty() ? exchanged_bytes(collective) : -1;
  if (job.turn) {
    job.turn->wait();
  }
  if (results.on_device) {
    job.arrival->deliver_arrays(run_on_device(job, results));
    return;
  }
  if (small >= 0 && small <= inline_bytes(size())) {
    finish_exchange(collective,
                    exchange(job, bytes_to_exchange(collective)).payloads);
  } else {
    exchange(job, Tensor());
    run(collective, *gloo_);
  }
  deliver(job, std::move(results));
}

std::vector<SharedObject> HostGroup::run_on_device(const Job& job,
                                                   const Results& results) {
  const auto exchanged = exchange(job, Tensor());
  const auto set_deadline = [&](std::optional<Clock::time_point> deadline) {
    std::lock_guard<std::mutex> lock(mutex_);
    device_deadline_ = deadline;
  };
  if (job.collective.timeout.count() > 0) {
    set_deadline(Clock::now() + job.collective.timeout);
  }
  auto arrays = results.on_device(exchanged);
  set_deadline(std::nullopt);
  return arrays;
}

void HostGroup::run_send(Job& job) {
  job.prepare(job.collective);
  const auto& collective = job.collective;
  const Tensor data = bytes_of(collective.inputs[0]);
  const int64_t capacity = inline_bytes(2);
  Tensor message =
      at::empty({static_cast<int64_t>(sizeof(Header)) + capacity}, at::kByte);
  const auto header =
      header_of(job.sequence, "", job.agreement.text, false, data.numel());
  auto* start = static_cast<char*>(message.data_ptr());
  std::memcpy(start, &header, sizeof(header));
  const bool is_inline = data.numel() <= capacity;
  if (is_inline) {
    std::memcpy(start + sizeof(header), data.const_data_ptr(), data.numel());
  }
  Tensors parts{message};
  wait(gloo_->send(parts, collective.peer, collective.tag), collective.timeout);
  if (!is_inline) {
    Tensor answer =
        at::empty({static_cast<int64_t>(sizeof(Header))}, at::kByte);
    parts = {answer};
    wait(gloo_->recv(parts, collective.peer, collective.tag + kAcknowledgement),
         collective.timeout);
    const auto reply = read_header(answer);
    if (reply.refused) {
      std::rethrow_exception(backend_error(text_of(reply)));
    }
    parts = {data};
    wait(gloo_->send(parts, collective.peer, collective.tag),
         collective.timeout);
  }
  job.arrival->deliver({});
}

void HostGroup::run_recv(Job& job) {
  Results results = job.prepare(job.collective);
  const auto& collective = job.collective;
  const Tensor data = bytes_of(collective.outputs[0]);
  const int64_t capacity = inline_bytes(2);
  Tensor message =
      at::empty({static_cast<int64_t>(sizeof(Header)) + capacity}, at::kByte);
  Tensors parts{message};
  int peer = collective.peer;
  if (collective.type == OpType::RECVANYSOURCE) {
    const auto work = gloo_->recvAnysource(parts, collective.tag);
    wait(work, collective.timeout);
    peer = work->sourceRank();
  } else {
    wait(gloo_->recv(parts, peer, collective.tag), collective.timeout);
  }
  if (job.source) {
    *job.source = peer;
  }
  const auto header = read_header(message);
  const bool fits = header.bytes == data.numel();
  std::ostringstream out;
  if (!fits) {
    out << "tpu: torch.distributed: rank " << names_.global_ranks[peer]
        << " sends " << header.bytes << " bytes (" << text_of(header)
        << ") to rank " << names_.global_ranks[rank()] << ", which expects "
        << data.numel() << " (" << job.agreement.text << "), in group '"
        << description() << "'. Use the same shape and dtype in both";
  }
  if (header.bytes > capacity) {
    const auto reply = header_of(header.sequence, "", out.str(), !fits);
    Tensor answer =
        at::empty({static_cast<int64_t>(sizeof(Header))}, at::kByte);
    std::memcpy(answer.data_ptr(), &reply, sizeof(reply));
    parts = {answer};
    wait(gloo_->send(parts, peer, collective.tag + kAcknowledgement),
         collective.timeout);
  }
  if (!fits) {
    std::rethrow_exception(backend_error(out.str()));
  }
  if (header.bytes > capacity) {
    parts = {data};
    wait(gloo_->recv(parts, peer, collective.tag), collective.timeout);
  } else {
    data.copy_(message.narrow(0, sizeof(Header), data.numel()));
  }
  deliver(job, std::move(results));
}

void HostGroup::publish(const std::string& state) {
  store_->set("state/" + std::to_string(rank()),
              std::vector<uint8_t>(state.begin(), state.end()));
}

void HostGroup::poll() {
  std::string why;
  try {
    std::lock_guard<std::mutex> lock(store_mutex_);
    const auto now = Clock::now();
    if (now < next_poll_) {
      return;
    }
    next_poll_ = now + kPollInterval;
    if (store_->check({"broken"})) {
      const auto text = store_->get("broken");
      why.assign(text.begin(), text.end());
    }
  } catch (const std::exception& error) {
    why =
        "the store, which the first rank serves, is gone: " + reason_of(error);
  }
  std::string what;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (why.empty() && device_deadline_ && Clock::now() > *device_deadline_) {
      why = "the device has not ended it within the timeout";
    }
    if (!broken_.empty() || why.empty()) {
      return;
    }
    for (const auto& [key, lane] : lanes_) {
      if (!lane.current.empty()) {
        what = lane.current;
      }
    }
  }
  fail(what, why);
}

void HostGroup::fail(const std::string& what, const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.empty()) {
      return;
    }
  }
  std::string message = explain(what, why);
  if (Py_IsInitialized()) {
    Gil gil;
    const Ref path(PyObject_CallFunction(callbacks().dump_flight_record, "L",
                                         names_.global_ranks[rank()]));
    if (!path.get()) {
      message += "\nThe last collectives were not written: ";
      const Ref error = caught();
      const Ref text(PyObject_Str(error.get()));
      const char* reason = text.get() ? PyUnicode_AsUTF8(text.get()) : nullptr;
      message += reason ? reason : "unknown error";
    } else if (const char* name = PyUnicode_AsUTF8(path.get()); name && *name) {
      message +=
          std::string("\nThe last collectives of this rank are in ") + name;
    }
    PyErr_Clear();
  }
  abort(message);
}

std::string HostGroup::explain(const std::string& what,
                               const std::string& why) {
  std::map<int, std::string> states;
  try {
    std::lock_guard<std::mutex> lock(store_mutex_);
    publish(what);
    if (!store_->check({"broken"})) {
      const std::string text =
          "rank " + std::to_string(names_.global_ranks[rank()]) + ": " + why;
      store_->set("broken", std::vector<uint8_t>(text.begin(), text.end()));
    }
    const auto deadline = Clock::now() + kStatesTimeout;
    while (static_cast<int>(states.size()) < size() &&
           Clock::now() < deadline) {
      for (int i = 0; i < size(); ++i) {
        const auto key = "state/" + std::to_string(i);
        if (!states.contains(i) && store_->check({key})) {
          const auto text = store_->get(key);
          states[i].assign(text.begin(), text.end());
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const std::exception& error) {
    states[rank()] = what;
  }
  std::ostringstream out;
  out << "tpu: torch.distributed: " << what << " of group '" << description()
      << "' failed on rank " << names_.global_ranks[rank()] << ": " << why;
  for (int i = 0; i < size(); ++i) {
    const auto state = states.find(i);
    out << "\n  rank " << names_.global_ranks[i] << ": "
        << (state == states.end()
                ? "no answer: it has ended, or is not in a collective"
            : state->second.empty() ? "waits for nothing"
                                    : state->second);
  }
  out << "\nThe group is broken. Destroy it and create it again";
  return out.str();
}

void HostGroup::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  queued_.notify_all();
}

void HostGroup::abort(const std::string& reason) {
  std::vector<std::weak_ptr<Arrival>> pending;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.empty()) {
      return;
    }
    broken_ = reason;
    pending.swap(pending_);
  }
  for (const auto& weak : pending) {
    if (const auto arrival = weak.lock()) {
      arrival->fail(backend_error(reason));
    }
  }
}

}  // namespace torch_google::tpu
