#include "memory/caught_error.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>

#include "base/system_limits.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

/// From "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is
/// free. ... 70.00 GiB is allocated by PyTorch, and 3.00 GiB is reserved by PyTorch but unallocated. ...": ": 2.00 GiB
/// requested, 1.20 GiB of 79.11 GiB free, 70.00 GiB in tensors, 3.00 GiB reserved for others". Of any other text, the
/// first line unchanged.
std::string amounts_in(std::string text) {
  constexpr size_t longest = 4096;  // std::regex recurses for each character
  text.resize(std::min(text.size(), longest));
  static const std::regex requested("Tried to allocate ([0-9.]+ [A-Za-z]+)\\.");
  static const std::regex free("total capacity of ([0-9.]+ [A-Za-z]+) of which ([0-9.]+ [A-Za-z]+) is free");
  static const std::regex held(
      "([0-9.]+ [A-Za-z]+) is allocated by PyTorch,.* and ([0-9.]+ [A-Za-z]+) is reserved by PyTorch but unallocated");
  std::smatch part;
  if (!std::regex_search(text, part, requested)) return ": " + first_line(text);
  const std::string amounts = ": " + part.str(1) + " requested";
  if (!std::regex_search(text, part, free)) return amounts;
  const std::string device_amounts = amounts + ", " + part.str(2) + " of " + part.str(1) + " free";
  if (!std::regex_search(text, part, held)) return device_amounts;
  return device_amounts + ", " + part.str(1) + " allocated, " + part.str(2) + " reserved";
}

/// What LibTorch throws if it cannot allocate memory for a tensor on the CPU.
bool is_cpu_allocator_error(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace()).find("DefaultCPUAllocator: ") != std::string_view::npos;
}

bool is_out_of_cpu_memory() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const c10::Error& error) {
    return is_cpu_allocator_error(error);
  } catch (...) {
    return false;
  }
}

Error out_of_cpu_memory() {
  return Error(ExitStatus::device_memory,
               std::string("out of memory on the CPU; lower train.batch_size or train.sequence_length, raise "
                           "parallel.activation_checkpointing, or close other programs that use memory") +
                   memory_limit_text());
}

}  // namespace

Error caught_error() {
  try {
    throw;
  } catch (const Error& error) {
    return with_limit_named(error);
  } catch (const c10::OutOfMemoryError& error) {
    return Error(ExitStatus::device_memory,
                 "out of memory on the device" + amounts_in(error.what_without_backtrace()) +
                     "; lower train.batch_size or train.sequence_length, raise parallel.activation_checkpointing, set "
                     "parallel.activation_offload or parallel.cpu_offload = true, or shard over more ranks");
  } catch (const std::bad_alloc&) {
    return out_of_cpu_memory();
  } catch (const std::system_error&) {
    return *caught_system_error();
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    if (torch_error && is_cpu_allocator_error(*torch_error)) return out_of_cpu_memory();
    if (const Error named = with_limit_named(Error(ExitStatus::bug, first_line(error.what())));
        named.status() != ExitStatus::bug)
      return named;
    return Error(ExitStatus::bug, std::string("this is a bug in wmtp-host: ") + error.what());
  } catch (...) {
    return Error(ExitStatus::bug,
                 "this is a bug in wmtp-host: an exception that is not derived from std::exception was thrown");
  }
}

void rethrow_from(const std::string& doing, const std::string& advice) {
  if (is_out_of_cpu_memory())
    throw Error(ExitStatus::device_memory, "out of memory on the CPU " + doing + "; " + advice + memory_limit_text());
  throw;
}

}  // namespace wmtp
