// Runs Python programs that nobody vouches for, each in a process of its own that can
//
// - write only below a folder that is made for it and removed afterwards (Landlock), and only so much (RLIMIT_FSIZE)
// - open no socket, signal no other process, start none (seccomp), and change no file's mode, owner or times
// - take only so much memory (RLIMIT_AS) and time, by the CPU's clock and by the wall's
// - gain no privilege: its capabilities are dropped, and no program that it executes gets them back
//
// It may read what this user may read. A program has passed when it came to its end and exited with 0: os._exit(0) in
// the middle of it is a failure. Linux on x86-64 and AArch64, kernel 5.13 or newer with Landlock; elsewhere refused.
// Knows no LibTorch.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace wmtp {

struct SandboxLimits {
  double seconds = 3;  ///< of the wall's clock
  int64_t memory_bytes = int64_t{1} << 30;
  int64_t file_bytes = int64_t{16} << 20;  ///< of each file
};

enum class Verdict { passed, failed, timed_out };
const char* to_string(Verdict);

struct Judged {
  Verdict verdict = Verdict::failed;
  std::string told;  ///< last line of what it wrote to stderr, or what ended it; "" when it passed
  double seconds = 0;
};

class Sandbox {
 public:
  /// `python`: a path, or a name that is looked for in PATH. Error(usage) when it is not there, or when the kernel
  /// cannot hold a program.
  Sandbox(const std::string& python, const SandboxLimits& limits);
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;

  /// From any thread. Error(storage) when no folder or process can be made.
  Judged run(const std::string& program) const;

 private:
  std::filesystem::path python_;
  SandboxLimits limits_;
};

}  // namespace wmtp
