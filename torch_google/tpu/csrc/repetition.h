// SPDX-License-Identifier: Apache-2.0
// Detects that a trace repeats itself, as in a loop that never reads a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_google::tpu {

// A sequence of words (numbers), with the longest border of each prefix, as in
// the Knuth-Morris-Pratt algorithm. The shortest period of n words is n minus
// the length of their longest border.
class Rounds {
 public:
  // Appends a word. Returns whether the sequence now consists of a round (a
  // shorter sequence) that is repeated at least `least` times.
  bool add(uint32_t word, size_t least) {
    words_.push_back(word);
    size_t border = borders_.empty() ? 0 : borders_.back();
    if (words_.size() == 1) {
      borders_.push_back(0);
      return false;
    }
    while (border && words_[border] != word) {
      border = borders_[border - 1];
    }
    borders_.push_back(border + (words_[border] == word));
    const size_t period = words_.size() - borders_.back();
    return words_.size() % period == 0 && words_.size() >= least * period;
  }
  void clear() {
    words_.clear();
    borders_.clear();
  }
  size_t size() const { return words_.size(); }

 private:
  std::vector<uint32_t> words_;
  std::vector<uint32_t> borders_;
};

class Repetition {
 public:
  // Appends a word, which identifies a program. Returns whether the trace
  // should end after that program, so that the next trace starts at the
  // beginning of a round (an iteration of the loop).
  bool add(uint32_t word) {
    if (whole_.add(word, 2) && whole_.size() >= kShort) {
      return true;
    }
    // `whole_` does not detect a loop if other operators precede it. `recent_`
    // does, because it restarts whenever the length of the trace doubles.
    // `recent_` requires more rounds, because the identical layers of a network
    // look like rounds as well.
    if (whole_.size() == next_) {
      recent_.clear();
      next_ *= 2;
    }
    return whole_.size() > kLong && recent_.add(word, 4) &&
           recent_.size() >= kLong / 2;
  }

 private:
  static constexpr size_t kShort = 64;
  static constexpr size_t kLong = 512;

  Rounds whole_;
  Rounds recent_;
  size_t next_ = kLong;
};

}  // namespace torch_google::tpu
