#include "data/tokens/token_id_file.hpp"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

static_assert(std::endian::native == std::endian::little, "ids are copied from the file");

TokenIdFile::TokenIdFile(const std::filesystem::path& file, TokenIdLayout layout, int64_t vocab_size, std::string hint)
    : path_(file), hint_(std::move(hint)), file_(file), layout_(std::move(layout)), vocab_size_(vocab_size) {}

void TokenIdFile::read(int64_t first, int64_t count, int64_t* ids) const {
  const int64_t id_bytes = layout_.id_bytes(), unused_bits = 64 - 8 * id_bytes;
  std::vector<unsigned char> bytes(size_t(count * id_bytes));
  if (!read_at(file_.descriptor(), path_, layout_.offset + first * id_bytes, bytes.data(), bytes.size()))
    throw Error(ExitStatus::data, path_.string() + " was truncated during the run: it had " +
                                      with_thousands(this->count()) + " ids when it was opened, and ids " +
                                      with_thousands(first) + " to " + with_thousands(first + count - 1) +
                                      " are missing; do not change the data of a running experiment");
  const unsigned char* next = bytes.data();
  for (int64_t i = 0; i < count; ++i, next += id_bytes) {
    uint64_t number = 0;
    std::memcpy(&number, next, size_t(id_bytes));
    const int64_t id = layout_.is_signed() ? int64_t(number << unused_bits) >> unused_bits : int64_t(number);
    if (id < 0 || id >= vocab_size_)
      throw Error(ExitStatus::data,
                  path_.string() + ", position " + with_thousands(first + i) + ": id " + with_thousands(id) +
                      (id < 0 ? " is negative" : " is not below the vocabulary's size " + with_thousands(vocab_size_)) +
                      hint_);
    ids[i] = id;
  }
}

}  // namespace wmtp
