// A file of little-endian token ids, read by position: many threads can share it, and truncation is reported, whereas a
// mapping would end in SIGBUS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/tokens/token_id_layout.hpp"
#include "io/input_file.hpp"

namespace wmtp {

class TokenIdFile {
 public:
  /// Throws the errors of InputFile. `hint` ends the message about an id that is too large.
  TokenIdFile(const std::filesystem::path& file, TokenIdLayout layout, int64_t vocab_size, std::string hint = "");

  const std::filesystem::path& path() const { return path_; }
  int64_t count() const { return layout_.count; }

  /// Error(data) with file, position and id if an id is not below the vocabulary's size or the file has shrunk.
  void read(int64_t first, int64_t count, int64_t* ids) const;

 private:
  std::filesystem::path path_;
  std::string hint_;
  InputFile file_;
  TokenIdLayout layout_;
  int64_t vocab_size_;
};

}  // namespace wmtp
