// Whether files are text to train on. Everything else, trained on, would be noise without a message.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace wmtp {

/// Error(data) if the beginning of `file` shows that it is no text, or JSON lines without a `text`; packed or not
/// (io/file_kind.hpp). Returns whether it is JSON lines.
bool check_text_kind(const std::filesystem::path& file);

/// Bytes of texts that are in no character of UTF-8. Large corpora of code contain a few, as examples.
class InvalidUtf8Counter {
 public:
  /// check_text_kind, and Error(data) if the file contains NUL or, after its beginning, text in an encoding of 7 bits.
  /// Reads all of a text; a mistake in JSON lines is reported when they are read. Returns the number of invalid bytes.
  int64_t count(const std::filesystem::path& file);
  /// Counts a file of so many bytes as valid.
  void add_valid(int64_t bytes) { bytes_ += bytes; }
  /// Error(data) if more than one byte in a thousand of all files is invalid.
  void refuse_too_many() const;

 private:
  int64_t bytes_ = 0, invalid_ = 0, files_ = 0, first_ = 0;  ///< `first_`: offset in first_file_
  std::filesystem::path first_file_;
};

/// Error(data) unless the files together are text in UTF-8, with the exceptions above.
void check_text_files(const std::vector<std::filesystem::path>& files);

}  // namespace wmtp
