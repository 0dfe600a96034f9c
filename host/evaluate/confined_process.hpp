// A Python in a process of its own that has given its rights up (confinement.hpp, system_calls.hpp), what it has told
// and how it ended. It is alone: it can start no other process, so ending it ends all of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// A file descriptor that is closed with its owner.
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
  std::filesystem::path folder = {};  ///< the only one that it may write to, and where it is; empty: "/", and none
  int input = -1;                     ///< its descriptor 0; 1 and 2 are its output
  std::vector<int> descriptors = {};  ///< from 3 on, four at most
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

class ConfinedProcess {
 public:
  /// Error(storage) when no process can be made, Error(usage) when this kernel cannot hold it.
  explicit ConfinedProcess(const ProcessStart& start);
  ~ConfinedProcess() { end(); }

  int output() const { return output_.reading.get(); }  ///< readable when it has written
  int exit() const { return exit_.get(); }              ///< readable when it has ended
  pid_t id() const { return id_; }
  bool has_ended() const;
  void take_output();  ///< what is there now; of all the last is kept
  /// Kills it where it runs, and takes the rest of what it wrote. The same as waitpid says, each time.
  int end();
  /// [ended] Its last line, or what ended it.
  std::string told() const;

 private:
  Pipe output_;
  Descriptor exit_;
  pid_t id_ = -1;
  int status_ = 0;
  std::string text_;
};

}  // namespace wmtp
