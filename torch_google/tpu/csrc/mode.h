// SPDX-License-Identifier: Apache-2.0
// How operators run: the process's way, unless a thread has set its own.
#pragma once

#include <Python.h>

#include <optional>

namespace torch_google::tpu {

enum class Mode : int { strict = 0, debug = 1 };

void set_global_mode(Mode mode);
Mode global_mode();

// Settings of a thread, which autograd's threads take over from the one that
// calls backward().
void set_thread_mode(std::optional<Mode> mode);
std::optional<Mode> thread_mode();
void set_thread_fallback(bool allowed);
bool thread_fallback();

// What holds here.
Mode mode();

}  // namespace torch_google::tpu
