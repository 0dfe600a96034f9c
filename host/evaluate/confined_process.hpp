// A Python process that has given up its rights (confinement.hpp, system_calls.hpp), its output and its exit status. It
// can start no other process, so killing it ends everything it started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  int get() const { return number_; }
  void reset(int number = -1);

 private:
  int number_;
};

struct Pipe {
  Pipe();  ///< Error(storage)
  Descriptor reading, writing;
};

struct ProcessStart {
  std::vector<std::string> arguments = {};  ///< the program's path first
  std::filesystem::path folder = {};  ///< working directory and only writable folder; empty: "/", nothing writable
  int input = -1;                     ///< its descriptor 0; 1 and 2 are its output
  std::vector<int> descriptors = {};  ///< its descriptors from 3 on, at most four
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

class ConfinedProcess {
 public:
  /// Error(storage) when no process can be started, Error(usage) when this kernel cannot confine it.
  explicit ConfinedProcess(const ProcessStart& start);
  ~ConfinedProcess() { end(); }

  int output() const { return output_.reading.get(); }  ///< readable when it has output
  int exit() const { return exit_.get(); }              ///< readable when it has ended
  pid_t id() const { return id_; }
  bool has_ended() const;
  void take_output();  ///< reads available output; the last 64 KiB are kept
  /// Kills it if it is running and reads the rest of its output. The status of waitpid, on every call.
  int end();
  /// [ended] Its last line of output, or how it ended.
  std::string told() const;

 private:
  Pipe output_;
  Descriptor exit_;
  pid_t id_ = -1;
  int status_ = 0;
  std::string text_;
};

}  // namespace wmtp
