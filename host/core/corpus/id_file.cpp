#include "core/corpus/id_file.hpp"

#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

IdFile::IdFile(const std::filesystem::path& file, bool wide, int64_t vocab_size, std::string hint)
    : path_(file), hint_(std::move(hint)), file_(file), id_bytes_(wide ? 4 : 2), vocab_size_(vocab_size) {}

bool IdFile::read_bytes(int64_t offset, void* out, size_t size) const {
  return read_at(file_.descriptor(), path_, offset, out, size);
}

void IdFile::read(int64_t first, int64_t count, int64_t* ids) const {
  std::vector<unsigned char> bytes(static_cast<size_t>(count * id_bytes_));
  if (!read_bytes(header_bytes_ + first * id_bytes_, bytes.data(), bytes.size()))
    throw Error(ExitStatus::data, path_.string() + " was truncated during the run: it had " +
                                      with_thousands(this->count()) + " ids when it was opened, and ids " +
                                      with_thousands(first) + " to " + with_thousands(first + count - 1) +
                                      " are missing; do not change the data of a running experiment");
  const unsigned char* next = bytes.data();
  for (int64_t i = 0; i < count; ++i, next += id_bytes_) {
    int64_t id = next[0] | next[1] << 8;
    if (id_bytes_ == 4) id |= static_cast<int64_t>(next[2]) << 16 | static_cast<int64_t>(next[3]) << 24;
    if (id >= vocab_size_)
      throw Error(ExitStatus::data, path_.string() + ", position " + with_thousands(first + i) + ": id " +
                                        with_thousands(id) + " is not below the vocabulary's size " +
                                        with_thousands(vocab_size_) + hint_);
    ids[i] = id;
  }
}

}  // namespace wmtp
