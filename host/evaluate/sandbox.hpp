// Judges Python programs that nobody vouches for. Program and tests run in two processes, both confined; each can
//
// - write only below a folder that is made for the program and removed afterwards (Landlock), and only so much
// - make only the system calls of system_calls.hpp: no sockets, no processes, no signals to others, no shared memory
// - take only so much memory (RLIMIT_AS) and time, by the CPU's clock and by the wall's
// - gain no privilege: its capabilities are dropped, and no program that it executes gets them back
//
// It may read what this user may read, but no memory of another process. The tests call the program through a pair of
// pipes, and get plain values (programs/codec.py); they compare in their own process. A program has passed when its
// tests' last statement was reached, which their process tells through a pipe that the program does not have. Linux on
// x86-64 and AArch64, kernel 5.13 or newer with Landlock; elsewhere refused. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>

#include "evaluate/usage_watch.hpp"

namespace wmtp {

struct SandboxLimits {
  double seconds = 3;  ///< of the wall's clock, for program and tests together
  int64_t memory_bytes = int64_t{1} << 30;
  int64_t file_bytes = int64_t{16} << 20;  ///< of each file
  UsageLimits usage = {};
};

/// What is judged.
struct Submission {
  std::string program;
  std::string tests = "";        ///< may use names of the program's; "": the program has only to be executed
  std::string prompt = "";       ///< the problem's own begin of the program: what it defines, tests take from here
  std::string entry_point = "";  ///< the function under test, where it is named
};

enum class Verdict { passed, failed, timed_out };
const char* to_string(Verdict);

struct Judged {
  Verdict verdict = Verdict::failed;
  std::string told;  ///< last line of what program or tests wrote to stderr, or what ended it; "" when it passed
  double seconds = 0;
};

class Sandbox {
 public:
  /// `python`: a path, or a name that is looked for in PATH. Error(usage) when it is not there, or when the kernel
  /// cannot hold a program.
  Sandbox(const std::string& python, const SandboxLimits& limits);

  /// From any thread. Error(storage) when no folder or process can be made.
  Judged run(const Submission& submission) const;

 private:
  std::filesystem::path python_;
  SandboxLimits limits_;
};

}  // namespace wmtp
