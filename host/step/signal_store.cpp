#include "step/signal_store.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"

namespace wmtp {
namespace {

static_assert(std::endian::native == std::endian::little, "signal files are little-endian");

constexpr size_t header_unit = 4096;
constexpr int64_t end_of_windows = int64_t{1} << 40;

std::string signal_file_header(const std::string& key, int64_t values_per_window) {
  std::string header = "wmtp signals 1\nvalues per window: " + std::to_string(values_per_window) + "\n" + key + "\n";
  header.resize((header.size() + header_unit - 1) / header_unit * header_unit, '\0');
  return header;
}

uint64_t file_size_limit() {
  struct rlimit limit {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

std::string because(const std::string& action, const std::filesystem::path& path, int code) {
  return "cannot " + action + " " + path.string() + ": " + std::generic_category().message(code);
}

}  // namespace

SignalStore::SignalStore(const std::filesystem::path& folder, const std::string& key, int64_t values_per_window,
                         Warn warn)
    : header_(signal_file_header(key, values_per_window)),
      file_(folder / (sha256_hex(header_).substr(0, 32) + ".f32")),
      value_bytes_(size_t(values_per_window) * sizeof(float)),
      header_sum_(crc32c(header_.data(), header_.size())),
      largest_file_(file_size_limit()),
      warn_(std::move(warn)) {
  if (values_per_window < 1) throw Error(ExitStatus::bug, "a signal store needs at least one value per window");
  open_file();
  if (reads_) check_header();
}

void SignalStore::open_file() {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const int flags = O_CLOEXEC | O_NONBLOCK;  // opening a named pipe must not block
  descriptor_ = FileDescriptor(open(file_.c_str(), flags | O_RDWR | O_CREAT, 0666));
  if (descriptor_.get() < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
    const int code = errno;
    descriptor_ = FileDescriptor(open(file_.c_str(), flags | O_RDONLY));
    stop(because("write", file_, code), /*reads=*/descriptor_.get() >= 0);
  } else if (descriptor_.get() < 0) {
    stop(because("open", file_, errno), false);
  }
  struct stat status {};
  if (descriptor_.get() >= 0 && (fstat(descriptor_.get(), &status) != 0 || !S_ISREG(status.st_mode)))
    stop(file_.string() + " is not a regular file; move it away", false);
}

/// A prefix of this header followed by nothing or zeros was left by a killed process, or is being written right now:
/// all processes write the same bytes.
void SignalStore::check_header() {
  std::string found(header_.size(), '\0');
  const ssize_t got = retry_interrupted([&] { return pread(descriptor_.get(), found.data(), found.size(), 0); });
  if (got < 0) return stop(because("read", file_, errno), false);
  const auto differs = std::mismatch(found.begin(), found.end(), header_.begin()).first;
  if (std::any_of(differs, found.end(), [](char c) { return c != '\0'; }))
    return stop(file_.string() + " has a different header than these signals; remove it", false);
  if (size_t(got) == header_.size() && differs == found.end()) return;
  if (!writes_) return;
  if (header_.size() > largest_file_) return stop(because("write", file_, EFBIG), false);
  const ssize_t put = retry_interrupted([&] { return pwrite(descriptor_.get(), header_.data(), header_.size(), 0); });
  if (put != ssize_t(header_.size())) stop(because("write", file_, put < 0 ? errno : ENOSPC), false);
}

void SignalStore::stop(const std::string& why, bool reads) const {
  writes_ = false;
  if (!reads) reads_ = false;
  if (warned_.exchange(true) || !warn_) return;
  warn_("signals of frozen models are no longer cached: " + why +
        (reads ? "; cached ones are used, all others are computed" : "; all are computed"));
}

int64_t SignalStore::record_offset(int64_t window) const {
  if (window < 0 || window >= end_of_windows)
    throw Error(ExitStatus::bug, "window " + std::to_string(window) + " is outside the range of a signal store");
  return int64_t(header_.size()) + window * int64_t(value_bytes_ + sizeof(uint32_t));
}

uint32_t SignalStore::record_checksum(int64_t window, const float* values) const {
  const uint32_t sum = crc32c(values, value_bytes_, crc32c(&window, sizeof window, header_sum_));
  return sum == 0 ? UINT32_MAX : sum;
}

bool SignalStore::read(int64_t window, float* values) const {
  const int64_t offset = record_offset(window);
  if (!reads_) return false;
  uint32_t sum = 0;
  const iovec parts[] = {{values, value_bytes_}, {&sum, sizeof sum}};
  const ssize_t got = retry_interrupted([&] { return preadv(descriptor_.get(), parts, 2, offset); });
  if (got < 0) stop(because("read", file_, errno), false);
  return got == ssize_t(value_bytes_ + sizeof sum) && sum == record_checksum(window, values);
}

void SignalStore::write(int64_t window, const float* values) {
  const int64_t offset = record_offset(window);
  if (!writes_) return;
  uint32_t sum = record_checksum(window, values);
  const iovec parts[] = {{const_cast<float*>(values), value_bytes_}, {&sum, sizeof sum}};
  const size_t count = value_bytes_ + sizeof sum;
  if (uint64_t(offset) + count > largest_file_) return stop(because("write", file_, EFBIG), true);
  const ssize_t put = retry_interrupted([&] { return pwritev(descriptor_.get(), parts, 2, offset); });
  if (put != ssize_t(count)) stop(because("write", file_, put < 0 ? errno : ENOSPC), true);
}

}  // namespace wmtp
