// SPDX-License-Identifier: Apache-2.0
// Support for the C++ tests in this folder: expectations, and running code in a
// child process.
#ifndef THIRD_PARTY_TORCH_SOURCE_TESTS_EXPECT_H_
#define THIRD_PARTY_TORCH_SOURCE_TESTS_EXPECT_H_

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

inline int failures = 0;

inline void Expect(bool met, const std::string& complaint) {
  if (met) return;
  ++failures;
  fprintf(stderr, "FAILED: %s\n", complaint.c_str());
}

struct Ended {
  int signal = 0;     // the signal that killed the process, or 0
  std::string error;  // the standard error of the process
};

// Runs `work` in a forked process, so that settings that it changes do not
// affect later tests.
inline Ended InChild(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return {-1, "no pipe"};
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    work();
    fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  ssize_t count;
  while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
    ended.error.append(buffer, count);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

#endif  // THIRD_PARTY_TORCH_SOURCE_TESTS_EXPECT_H_
