#include "io/nameless_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/text.hpp"

namespace wmtp {

NamelessFile::NamelessFile(std::filesystem::path folder, std::string content, std::optional<int64_t> bytes)
    : folder_(std::move(folder)), content_(std::move(content)) {
  std::string path = (folder_ / "wmtp-temporary-XXXXXX").string();
  file_ = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
  if (file_.get() < 0) {
    const int code = errno;
    const std::string size = bytes ? "of " + human_bytes(*bytes) + " " : "";
    throw storage_error("create a file " + size + "for " + content_ + " in", folder_, code);
  }
  unlink(path.c_str());
}

void NamelessFile::read(int64_t begin, void* bytes, size_t count) const {
  char* const to = static_cast<char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t got =
        retry_interrupted([&] { return pread(file_.get(), to + done, count - done, begin + int64_t(done)); });
    if (got <= 0) throw storage_error("read " + content_ + " from a file in", folder_, got < 0 ? errno : EIO);
    done += size_t(got);
  }
}

void NamelessFile::write(int64_t begin, const void* bytes, size_t count) const {
  const char* const from = static_cast<const char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t written =
        retry_interrupted([&] { return pwrite(file_.get(), from + done, count - done, begin + int64_t(done)); });
    if (written <= 0) throw storage_error("write " + content_ + " to a file in", folder_, written < 0 ? errno : EIO);
    done += size_t(written);
  }
}

}  // namespace wmtp
