#include "core/documents/jsonl_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* action, const fs::path& path) {
  throw Error(ExitStatus::storage, std::string("cannot ") + action + " " + path.string() + ": " + std::strerror(errno));
}

void sync(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail("open", path);
  const bool synced = fsync(descriptor) == 0;
  const int failure = errno;
  close(descriptor);
  errno = failure;
  if (!synced) fail("sync", path);
}

}  // namespace

JsonlWriter::JsonlWriter(fs::path target)
    : target_(fs::absolute(target)), draft_(target_.string() + ".tmp-" + std::to_string(getpid())) {
  out_.open(draft_, std::ios::binary | std::ios::trunc);
  if (!out_) fail("write", target_);
}

JsonlWriter::~JsonlWriter() {
  std::error_code ignored;
  fs::remove(draft_, ignored);
}

void JsonlWriter::add(std::string_view line) {
  out_ << line << '\n';
  if (!out_) fail("write", target_);
  ++lines_;
}

void JsonlWriter::publish() {
  out_.close();
  if (!out_) fail("write", target_);
  sync(draft_);
  if (std::rename(draft_.c_str(), target_.c_str()) != 0) fail("write", target_);
  sync(target_.parent_path());
}

}  // namespace wmtp
