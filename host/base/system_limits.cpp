#include "base/system_limits.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t smallest_stack = 256 << 10;

/// The soft limit; nullopt if there is none.
std::optional<int64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return int64_t(limit.rlim_cur);
}

/// In the unit of `ulimit`.
std::string limit_text(const std::string& option, const std::string& what, int64_t value) {
  return "ulimit " + option + " (" + what + ") is " + std::to_string(value);
}

std::string open_files_limit_text() {
  const auto limit = soft_limit(RLIMIT_NOFILE);
  return limit ? limit_text("-n", "open files of a process", *limit) : "";
}

struct MemoryLimit {
  std::string text;
  int64_t left = 0;  ///< bytes that this process may still allocate
};

/// The one of which less is left. Without a limit on it, memory ran out on the machine.
std::optional<MemoryLimit> memory_limit() {
  const auto status = named_numbers_in("/proc/self/status");  // KiB
  const auto left = [&](int64_t limit, const char* used) {
    const auto found = status.find(used);
    return limit - (found == status.end() ? 0 : found->second * 1024);
  };
  std::optional<MemoryLimit> nearest;
  if (const auto limit = soft_limit(RLIMIT_AS))
    nearest = {limit_text("-v", "KiB of address space", *limit / 1024), left(*limit, "VmSize")};
  if (const auto limit = soft_limit(RLIMIT_DATA); limit && (!nearest || left(*limit, "VmData") < nearest->left))
    nearest = {limit_text("-d", "KiB of data", *limit / 1024), left(*limit, "VmData")};
  return nearest;
}

std::string memory_limits_text() {
  const auto limit = memory_limit();
  return limit ? limit->text : "";
}

std::string file_size_limit_text() {
  const auto limit = soft_limit(RLIMIT_FSIZE);
  return limit ? limit_text("-f", "KiB of a file", *limit / 1024) : "";
}

std::string cpu_time_limit_text() {
  const auto limit = soft_limit(RLIMIT_CPU);
  return limit ? limit_text("-t", "seconds of computing", *limit) : "";
}

/// Whether the limits leave no room for another thread's stack.
bool is_memory_full() {
  constexpr int64_t usual_stack = 8 << 20, reserve = 4 << 20;
  const auto limit = memory_limit();
  return limit && limit->left < soft_limit(RLIMIT_STACK).value_or(usual_stack) + reserve;
}

/// Threads of all processes of this user, which RLIMIT_NPROC counts.
int64_t user_thread_count() {
  int64_t threads = 0;
  std::error_code gone;
  for (fs::directory_iterator process("/proc", gone), end; process != end && !gone; process.increment(gone)) {
    struct stat owner {};
    if (stat(process->path().c_str(), &owner) != 0 || owner.st_uid != getuid()) continue;
    const auto status = named_numbers_in(process->path() / "status");
    if (const auto found = status.find("Threads"); found != status.end()) threads += found->second;
  }
  return threads;
}

/// The limit because of which no thread or process could be started, else all that may be the cause.
std::string thread_limit_text() {
  constexpr int64_t ended_meanwhile = 4;
  if (is_memory_full()) return memory_limits_text();
  const auto user_limit = soft_limit(RLIMIT_NPROC), group_limit = cgroup_pids_limit();
  const bool is_user_full = user_limit && user_thread_count() + ended_meanwhile >= *user_limit;
  // It was full, in this process or in one that has ended.
  if (const std::string memory = memory_limits_text(); !memory.empty() && !is_user_full) return memory;
  const std::string user = user_limit ? limit_text("-u", "threads and processes of this user", *user_limit) : "";
  const std::string group = group_limit ? "pids.max of its control group is " + std::to_string(*group_limit) : "";
  if (user.empty() || group.empty()) return user + group;
  if (is_user_full) return user;
  return user + ", and " + group;
}

/// Messages of the system, of Python, of libgomp, of OpenBLAS, of SQLite and of the dynamic linker. In the order of the
/// search.
struct Cause {
  const char* message;
  std::string (*limit)();
};
constexpr Cause causes[] = {
    {"Too many open files in system", [] { return std::string("fs.file-max of this machine is reached"); }},
    {"Too many open files", open_files_limit_text},
    {"Resource temporarily unavailable", thread_limit_text},
    {"can't start new thread", thread_limit_text},
    {"Thread creation failed", thread_limit_text},
    {"pthread_create failed", thread_limit_text},
    {"File too large", file_size_limit_text},
    {"disk I/O error", file_size_limit_text},
    {"disk is full", file_size_limit_text},
    {"Cannot allocate memory", memory_limits_text},
    {"cannot allocate memory", memory_limits_text},
    {"failed to map segment", memory_limits_text},
    {"cannot map zero-fill pages", memory_limits_text},
    {"cannot create shared object descriptor", memory_limits_text},
    {"Memory allocation still failed", memory_limits_text},
    {"bad_alloc", memory_limits_text},
    {"could not create a primitive", memory_limits_text},  // oneDNN, whose kernels need memory of their own
    {"(SQLite code 7)", memory_limits_text},
    {"MemoryError", memory_limits_text},
};

std::string with_limit(const std::string& text, const std::string& limit) {
  return limit.empty() ? text : text + "; " + limit + ", raise it";
}

/// What could not be done: "a/b: Permission denied".
std::string system_error_text(const std::system_error& error) {
  const std::string cause = error.code().message();
  const auto* of_file = dynamic_cast<const fs::filesystem_error*>(&error);
  if (!of_file)
    return error.code() == std::errc::resource_unavailable_try_again ? "cannot start a thread: " + cause
                                                                     : std::string(error.what());
  const std::string from = of_file->path1().string(), to = of_file->path2().string();
  return from + (to.empty() ? "" : " -> " + to) + (from.empty() ? "" : ": ") + cause;
}

}  // namespace

Error with_limit_named(const Error& error) {
  const std::string text = error.what();
  if (text.find(", raise it") != text.npos) return error;
  for (const Cause& cause : causes)
    if (text.find(cause.message) != text.npos) {
      const std::string limit = cause.limit();
      if (!limit.empty()) return Error(ExitStatus::storage, with_limit(text, limit));
    }
  return error;
}

void throw_if_limit_caused(const Error& error) {
  if (const Error named = with_limit_named(error); named.what() != std::string(error.what())) throw named;
}

std::optional<Error> caught_system_error() {
  try {
    throw;
  } catch (const Error& error) {
    const Error named = with_limit_named(error);
    return named.what() == std::string(error.what()) ? std::nullopt : std::optional(named);
  } catch (const std::system_error& error) {
    return with_limit_named(Error(ExitStatus::storage, system_error_text(error)));
  } catch (const std::bad_alloc&) {
    return Error(ExitStatus::device_memory, with_limit("out of memory", memory_limits_text()));
  } catch (...) {
    return std::nullopt;
  }
}

std::string memory_limit_text() { return with_limit("", memory_limits_text()); }

std::string limits_text_for_exit(int wait_status) {
  constexpr int not_loaded = 127, few_files = 64;
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU) return with_limit("", cpu_time_limit_text());
  if (!WIFSIGNALED(wait_status) && WEXITSTATUS(wait_status) != not_loaded) return "";
  const auto files = soft_limit(RLIMIT_NOFILE);
  const std::string of_files = files && *files < few_files && !WIFSIGNALED(wait_status) ? open_files_limit_text() : "";
  return with_limit(with_limit("", memory_limits_text()), of_files);
}

void check_stack_limit() {
  const auto limit = soft_limit(RLIMIT_STACK);
  if (limit && rlim_t(*limit) < smallest_stack)
    throw Error(ExitStatus::storage, limit_text("-s", "KiB of a stack", *limit / 1024) + ", wanted at least " +
                                         std::to_string(smallest_stack / 1024) + "; raise it");
}

void check_descriptors(int count) {
  std::vector<FileDescriptor> opened;
  for (int i = 0; i < count; ++i) {
    opened.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (opened.back().get() < 0)
      throw Error(ExitStatus::storage,
                  with_limit("cannot open " + std::to_string(count) + " files and connections: " + std::strerror(errno),
                             errno == EMFILE ? open_files_limit_text() : ""));
  }
}

void check_threads(int count) {
  std::latch end(1);
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&] { end.wait(); });
  } catch (const std::system_error&) {
    end.count_down();
    throw;
  }
  end.count_down();
}

}  // namespace wmtp
