#include "core/records/records.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/input_file.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the index is written as it lies in memory");

std::vector<RecordEntry> read_index(const fs::path& file) {
  std::error_code failure;
  const auto bytes = fs::file_size(file, failure);
  if (failure || bytes % sizeof(RecordEntry) != 0)
    throw Error(ExitStatus::data, file.string() + " is missing or cut; remove its folder to have it made anew");
  std::vector<RecordEntry> entries(bytes / sizeof(RecordEntry));
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw Error(ExitStatus::data, "cannot read " + file.string());
  return entries;
}

}  // namespace

Records::Records(const fs::path& folder, bool wide, int64_t vocab_size)
    : file_(folder / ids_name),
      id_bytes_(wide ? 4 : 2),
      vocab_size_(vocab_size),
      entries_(read_index(folder / index_name)) {
  descriptor_ = open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    const std::string why = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(ExitStatus::data, "cannot open " + file_.string() + ": " + why);
  }
  try {
    check(status.st_size / id_bytes_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

Records::~Records() { close(descriptor_); }

void Records::read(int64_t record, int64_t* ids) const {
  const RecordEntry& entry = entries_[static_cast<size_t>(record)];
  std::vector<unsigned char> bytes(static_cast<size_t>(entry.length * id_bytes_));
  if (!read_at(descriptor_, file_, entry.offset * id_bytes_, bytes.data(), bytes.size()))
    throw Error(ExitStatus::data, file_.string() + " has become shorter while it was read: record " +
                                      with_thousands(record) + " is not whole; do not change data under a run");
  const unsigned char* next = bytes.data();
  for (int64_t i = 0; i < entry.length; ++i, next += id_bytes_) {
    int64_t id = next[0] | next[1] << 8;
    if (id_bytes_ == 4) id |= static_cast<int64_t>(next[2]) << 16 | static_cast<int64_t>(next[3]) << 24;
    if (id >= vocab_size_)
      throw Error(ExitStatus::data, file_.string() + ", position " + with_thousands(entry.offset + i) + ": id " +
                                        with_thousands(id) + " is not below the vocabulary's size " +
                                        with_thousands(vocab_size_));
    ids[i] = id;
  }
}

void Records::check(int64_t num_ids) const {
  for (const RecordEntry& entry : entries_) {
    const bool fits =
        entry.prompt >= 0 && entry.length > entry.prompt && entry.offset >= 0 && entry.offset <= num_ids - entry.length;
    if (!fits)
      throw Error(ExitStatus::data, (file_.parent_path() / index_name).string() + " does not fit " + file_.string() +
                                        "; remove the folder to have both made anew");
  }
}

}  // namespace wmtp
