// Reads a text file from beginning to end, without a byte order mark, unpacked if its first bytes are those of gzip or
// zstd: all members and frames of the file, one after the other. A damaged or truncated file ends in an Error, never in
// a short text.
//
// Memory: 1 MiB of the file and the window of the format (gzip 32 KiB; zstd as the frame requests, at most 128 MiB,
// checked before it is allocated). A packed file may unpack to 200 times its size, or to 64 MiB if that is more; a file
// that contains more is refused at that byte, so that a small file cannot fill the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "io/input_file.hpp"

namespace wmtp {

enum class Compression { none, gzip, zstd };

/// The packing of a file that begins with these bytes, at least 4.
Compression detect_compression(std::string_view start);

/// The words after `gunzip -k`, `zstd -d` or their test `-t` in a shell. These programs read a file without the usual
/// suffix only from their standard input; it is then unpacked beside itself, with the suffix ".unpacked".
std::string compressed_file_argument(const std::filesystem::path& file, Compression packing, bool unpacks = true);

class DecompressedFile {
 public:
  /// `as_bytes`: the file is neither unpacked nor freed of a byte order mark. Throws the errors of InputFile.
  explicit DecompressedFile(const std::filesystem::path& file, bool as_bytes = false);
  ~DecompressedFile();

  Compression packing() const { return packing_; }
  /// Reads `count` bytes, fewer only at the end. Error(data) if the file is damaged, truncated or unpacks to too much.
  size_t read(char* out, size_t count);
  /// Skips `count` bytes, fewer only at the end; returns their number. Reads them only if the file is packed.
  int64_t skip(int64_t count);

 private:
  class Unpacker;
  class Gzip;
  class Zstd;
  size_t read_packed(char* out, size_t count);
  std::string_view next_piece();
  [[noreturn]] void refuse(const std::string& found, const std::string& command) const;

  std::filesystem::path path_;
  InputFile file_;
  Compression packing_ = Compression::none;
  std::unique_ptr<Unpacker> unpacker_;
  bool has_begun_ = false;  ///< to unpack
  std::string head_;        ///< the first bytes of a packed file's text, if they are no byte order mark
  std::string piece_;       ///< of the packed file
  std::string_view rest_;   ///< the part of piece_ that is not unpacked yet
  int64_t offset_ = 0;      ///< in the file, of the byte after piece_
  int64_t unpacked_ = 0;
};

}  // namespace wmtp
