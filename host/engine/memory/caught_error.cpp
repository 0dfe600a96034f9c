#include "engine/memory/caught_error.hpp"

#include <c10/util/Exception.h>

#include <new>
#include <regex>
#include <string>

namespace wmtp {
namespace {

/// From "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is
/// free. ...": ": 2.00 GiB requested, 1.20 GiB of 79.11 GiB free". Any other text unchanged, its first line only.
std::string amounts_in(const std::string& text) {
  static const std::regex asked("Tried to allocate ([0-9.]+ [A-Za-z]+)\\.");
  static const std::regex free("total capacity of ([0-9.]+ [A-Za-z]+) of which ([0-9.]+ [A-Za-z]+) is free");
  std::smatch part;
  if (!std::regex_search(text, part, asked)) return ": " + text.substr(0, text.find('\n'));
  const std::string amounts = ": " + part.str(1) + " requested";
  if (!std::regex_search(text, part, free)) return amounts;
  return amounts + ", " + part.str(2) + " of " + part.str(1) + " free";
}

}  // namespace

Error caught_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return Error(ExitStatus::device_memory,
                 "out of memory on the device" + amounts_in(error.what_without_backtrace()) +
                     "; lower train.batch_size or train.sequence_length, raise parallel.activation_checkpointing, set "
                     "parallel.cpu_offload = true, or shard over more ranks");
  } catch (const std::bad_alloc&) {
    return Error(ExitStatus::device_memory,
                 "out of memory on the CPU; lower train.batch_size or train.sequence_length, raise "
                 "parallel.activation_checkpointing, or end other programs that use it");
  } catch (const std::exception& error) {
    return Error(ExitStatus::bug, std::string("this is a mistake of wmtp-host itself: ") + error.what());
  } catch (...) {
    return Error(ExitStatus::bug,
                 "this is a mistake of wmtp-host itself: something was thrown that is no std::exception");
  }
}

}  // namespace wmtp
