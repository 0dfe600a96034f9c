// Judges untrusted Python programs. Program and tests run in two processes, both confined; each can
//
// - write only below a temporary folder for the program, and only a limited amount (Landlock)
// - make only the system calls of system_calls.hpp: no sockets, processes, signals to others or shared memory
// - use limited memory (RLIMIT_AS) and time, both CPU and wall-clock
// - gain no privilege: its capabilities are dropped, and no program that it executes regains them
//
// It can read what this user can read, but not the memory of another process. The tests call the program through a pair
// of pipes and receive plain values (programs/codec.py); they compare in their own process. A program passes if the
// tests reach their last statement, which their process reports through a pipe that is closed to the program. Linux on
// x86-64 and AArch64, kernel 5.13 or newer with Landlock; refused elsewhere.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "base/enum_names.hpp"
#include "evaluate/confined_process.hpp"

namespace wmtp {

struct SandboxLimits {
  double seconds = 3;  ///< wall-clock time, for program and tests together
  int64_t memory_bytes = int64_t{1} << 30;
  int64_t file_bytes = int64_t{16} << 20;  ///< of each file
  UsageLimits usage = {};
};

struct Submission {
  std::string program;
  std::string tests = "";        ///< may use the program's names; "": the program only has to run
  std::string prompt = "";       ///< the problem's part of the program: tests take its definitions from here
  std::string entry_point = "";  ///< the function under test, if named
};

enum class Verdict { passed, failed, timed_out };
template <>
inline constexpr auto names_of<Verdict> = std::array{"passed", "failed", "timed_out"};
static_assert(names_of<Verdict>.size() == size_t(Verdict::timed_out) + 1);

struct Judged {
  Verdict verdict = Verdict::failed;
  std::string message;  ///< last line that program or tests wrote, or how they ended; "" if passed
  double seconds = 0;
};

class Sandbox {
 public:
  /// `python`: as for users_python(). Error(usage) if it does not exist, or if the kernel cannot confine a program.
  Sandbox(const std::string& python, const SandboxLimits& limits);

  /// [any thread] Error(storage) if no folder or process can be created.
  Judged run(const Submission& submission) const;
  /// Error(storage) if a program that does nothing fails, so that no program can be judged.
  void check_works() const;
  const std::filesystem::path& python() const { return python_; }

 private:
  std::filesystem::path python_;
  SandboxLimits limits_;
};

}  // namespace wmtp
