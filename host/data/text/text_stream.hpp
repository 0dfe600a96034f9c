// Reads the text of a file from its beginning: of a text file its bytes, of JSON lines the string `text` of each
// object, one after the other. Both may be packed (io/decompressed_file.hpp). Offsets count the bytes of this text,
// which are those of the file only if it is neither packed nor JSON lines. Memory is bounded by a piece of text, or by
// one line of JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/text/json_lines.hpp"
#include "io/decompressed_file.hpp"

namespace wmtp {

class TextStream {
 public:
  /// `as_bytes`: the file is one text of its bytes, whatever they are. Throws the errors of DecompressedFile, here and
  /// below.
  explicit TextStream(const std::filesystem::path& file, bool as_bytes = false);

  /// Begins the next text: a text file is one, JSON lines have one for each line that is not blank. False after the
  /// last. Error(data) with file and line for a line that is not an object with a string `text`.
  bool next_text();
  /// Reads `count` bytes of the current text, fewer only at its end.
  size_t read(char* out, size_t count);
  /// Goes forward to an offset, at or after the current one, at most to the end of the file.
  void skip_to(int64_t offset);
  int64_t offset() const { return offset_; }
  bool is_json_lines() const { return lines_.has_value(); }

 private:
  std::filesystem::path file_;
  std::optional<DecompressedFile> bytes_;  ///< of a text file
  std::optional<LineStream> lines_;        ///< of JSON lines
  std::string line_text_;
  size_t next_ = 0;  ///< in line_text_
  bool has_begun_ = false;
  int64_t offset_ = 0;
};

}  // namespace wmtp
