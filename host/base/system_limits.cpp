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
std::optional<int64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return int64_t(limit.rlim_cur);
}

/// In the unit of `ulimit`.
std::string limit_text(const std::string& option, const std::string& what, int64_t value) {
  return "ulimit " + option + " (" + what + ") is " + std::to_string(value);
}

std::string text_of_files() {
  const auto limit = limit_of(RLIMIT_NOFILE);
  return limit ? limit_text("-n", "open files of a process", *limit) : "";
}

struct MemoryLimit {
  std::string text;
  int64_t left = 0;  ///< bytes that this process may still allocate
};

/// The one of which less is left. Without a limit on it, memory ran out on the machine.
std::optional<MemoryLimit> memory_limit() {
  const auto status = numbers_in("/proc/self/status");  // KiB
  const auto left = [&](int64_t limit, const char* used) {
    const auto found = status.find(used);
    return limit - (found == status.end() ? 0 : found->second * 1024);
  };
  std::optional<MemoryLimit> nearest;
  if (const auto limit = limit_of(RLIMIT_AS))
    nearest = {limit_text("-v", "KiB of address space", *limit / 1024), left(*limit, "VmSize")};
  if (const auto limit = limit_of(RLIMIT_DATA); limit && (!nearest || left(*limit, "VmData") < nearest->left))
    nearest = {limit_text("-d", "KiB of data", *limit / 1024), left(*limit, "VmData")};
  return nearest;
}

std::string text_of_memory() {
  const auto limit = memory_limit();
  return limit ? limit->text : "";
}

std::string text_of_file_size() {
  const auto limit = limit_of(RLIMIT_FSIZE);
  return limit ? limit_text("-f", "KiB of a file", *limit / 1024) : "";
}

std::string text_of_time() {
  const auto limit = limit_of(RLIMIT_CPU);
  return limit ? limit_text("-t", "seconds of computing", *limit) : "";
}

/// Whether the limits leave no room for another thread's stack.
bool is_memory_full() {
  constexpr int64_t usual_stack = 8 << 20, reserve = 4 << 20;
  const auto limit = memory_limit();
  return limit && limit->left < limit_of(RLIMIT_STACK).value_or(usual_stack) + reserve;
}

/// Threads of all processes of this user, which RLIMIT_NPROC counts.
int64_t threads_of_user() {
  int64_t threads = 0;
  std::error_code gone;
  for (fs::directory_iterator process("/proc", gone), end; process != end && !gone; process.increment(gone)) {
    struct stat owner {};
    if (stat(process->path().c_str(), &owner) != 0 || owner.st_uid != getuid()) continue;
    const auto status = numbers_in(process->path() / "status");
    if (const auto found = status.find("Threads"); found != status.end()) threads += found->second;
  }
  return threads;
}

/// The limit because of which no thread or process could be started, else all that may be the cause.
std::string text_of_threads() {
  constexpr int64_t ended_meanwhile = 4;
  if (is_memory_full()) return text_of_memory();
  const auto of_user = limit_of(RLIMIT_NPROC), of_group = most_processes_of_groups();
  const bool is_user_full = of_user && threads_of_user() + ended_meanwhile >= *of_user;
  // It was full, in this process or in one that has ended.
  if (const std::string memory = text_of_memory(); !memory.empty() && !is_user_full) return memory;
  const std::string user = of_user ? limit_text("-u", "threads and processes of this user", *of_user) : "";
  const std::string group = of_group ? "pids.max of its control group is " + std::to_string(*of_group) : "";
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
    {"Too many open files", text_of_files},
    {"Resource temporarily unavailable", text_of_threads},
    {"can't start new thread", text_of_threads},
    {"Thread creation failed", text_of_threads},
    {"pthread_create failed", text_of_threads},
    {"File too large", text_of_file_size},
    {"Cannot allocate memory", text_of_memory},
    {"cannot allocate memory", text_of_memory},
    {"failed to map segment", text_of_memory},
    {"cannot map zero-fill pages", text_of_memory},
    {"cannot create shared object descriptor", text_of_memory},
    {"Memory allocation still failed", text_of_memory},
    {"bad_alloc", text_of_memory},
    {"(SQLite code 7)", text_of_memory},
    {"MemoryError", text_of_memory},
};

std::string with_limit(const std::string& text, const std::string& limit) {
  return limit.empty() ? text : text + "; " + limit + ", raise it";
}

/// What could not be done: "a/b: Permission denied".
std::string text_of(const std::system_error& error) {
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

void throw_if_of_limit(const Error& error) {
  if (const Error named = with_limit_named(error); named.what() != std::string(error.what())) throw named;
}

std::optional<Error> caught_system_error() {
  try {
    throw;
  } catch (const Error& error) {
    const Error named = with_limit_named(error);
    return named.what() == std::string(error.what()) ? std::nullopt : std::optional(named);
  } catch (const std::system_error& error) {
    return with_limit_named(Error(ExitStatus::storage, text_of(error)));
  } catch (const std::bad_alloc&) {
    return Error(ExitStatus::device_memory, with_limit("out of memory", text_of_memory()));
  } catch (...) {
    return std::nullopt;
  }
}

std::string memory_limit_named() { return with_limit("", text_of_memory()); }

std::string limits_at_end_of_program(int wait_status) {
  constexpr int not_loaded = 127, few_files = 64;
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU) return with_limit("", text_of_time());
  if (!WIFSIGNALED(wait_status) && WEXITSTATUS(wait_status) != not_loaded) return "";
  const auto files = limit_of(RLIMIT_NOFILE);
  const std::string of_files = files && *files < few_files && !WIFSIGNALED(wait_status) ? text_of_files() : "";
  return with_limit(with_limit("", text_of_memory()), of_files);
}

void check_stack_limit() {
  const auto limit = limit_of(RLIMIT_STACK);
  if (limit && rlim_t(*limit) < smallest_stack)
    throw Error(ExitStatus::storage, limit_text("-s", "KiB of a stack", *limit / 1024) + ", wanted at least " +
                                         std::to_string(smallest_stack / 1024) + "; raise it");
}

void check_descriptors(int count) {
  std::vector<Descriptor> opened;
  for (int i = 0; i < count; ++i) {
    opened.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (opened.back().get() < 0)
      throw Error(ExitStatus::storage,
                  with_limit("cannot open " + std::to_string(count) + " files and connections: " + std::strerror(errno),
                             errno == EMFILE ? text_of_files() : ""));
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
