// File descriptors that are closed with their owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace wmtp {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }
  int get() const { return number_; }  ///< -1: none
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// Both ends are close-on-exec.
struct Pipe {
  static Pipe open();  ///< Error(storage)
  Descriptor read_end, write_end;
};

}  // namespace wmtp
