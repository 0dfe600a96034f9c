#include "core/records/records.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the index file is a copy of the entries in memory");

std::vector<RecordEntry> read_index(const fs::path& file) {
  std::error_code failure;
  const auto bytes = fs::file_size(file, failure);
  if (failure || bytes % sizeof(RecordEntry) != 0)
    throw Error(ExitStatus::data,
                file.string() + " is missing or truncated; remove its folder: the next run prepares the records again");
  std::vector<RecordEntry> entries(bytes / sizeof(RecordEntry));
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw Error(ExitStatus::data, "cannot read " + file.string());
  return entries;
}

}  // namespace

Records::Records(const fs::path& folder, bool wide, int64_t vocab_size)
    : entries_(read_index(folder / index_name)), ids_(folder / ids_name, wide, vocab_size) {
  check();
}

void Records::read(int64_t record, int64_t* ids) const {
  const RecordEntry& entry = entries_[static_cast<size_t>(record)];
  ids_.read(entry.offset, entry.length, ids);
}

void Records::check() const {
  for (const RecordEntry& entry : entries_) {
    const bool fits = entry.prompt >= 0 && entry.length > entry.prompt && entry.offset >= 0 &&
                      entry.offset <= ids_.count() - entry.length;
    if (!fits)
      throw Error(ExitStatus::data, "records.index does not match " + ids_.path().string() +
                                        "; remove the folder: the next run prepares the records again");
  }
}

}  // namespace wmtp
