// A Python in a process of its own that has given its rights up (confinement.hpp, system_calls.hpp), what it has told
// and how it ended. It is alone: it can start no other process, so ending it ends all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "process/child_process.hpp"

namespace wmtp {

struct ProcessStart {
  std::vector<std::string> arguments = {};  ///< the program's path first
  std::filesystem::path folder = {};  ///< the only one that it may write to, and where it is; empty: "/", and none
  int input = -1;                     ///< its descriptor 0; 1 and 2 are its output
  std::vector<int> descriptors = {};  ///< from 3 on, four at most
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

class ConfinedProcess {
 public:
  /// Error(storage) when no process can be made, Error(usage) when this kernel cannot hold it.
  explicit ConfinedProcess(const ProcessStart& start);

  int output() const { return output_.read_end.get(); }  ///< readable when it has written
  int exit() const { return exit_.get(); }               ///< readable when it has ended
  pid_t id() const { return process_.id(); }
  bool has_ended() const;
  void take_output();  ///< what is there now; of all the last is kept
  /// Kills it where it runs, and takes the rest of what it wrote. The same as waitpid says, each time.
  int end();
  /// [ended] Its last line, or what ended it.
  std::string told();

 private:
  Pipe output_;
  ChildProcess process_;
  Descriptor exit_;
  std::string text_;
};

}  // namespace wmtp
