// A file of raw little-endian token ids (uint16 or uint32), read by position: many threads can share it, and truncation
// is reported, whereas a mapping would end in SIGBUS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/input_file.hpp"

namespace wmtp {

class IdFile {
 public:
  /// Throws the errors of InputFile. `hint` ends the message about an id that is too large.
  IdFile(const std::filesystem::path& file, bool wide, int64_t vocab_size, std::string hint = "");

  const std::filesystem::path& path() const { return path_; }
  int64_t id_bytes() const { return id_bytes_; }
  int64_t bytes() const { return file_.size(); }
  int64_t count() const { return (bytes() - header_bytes_) / id_bytes_; }

  /// Ids start after a header of this size.
  void skip_header(int64_t bytes) { header_bytes_ = bytes; }

  /// False if the file ends before the last byte. Error(storage) if the system cannot read it.
  bool read_bytes(int64_t offset, void* out, size_t size) const;
  /// Error(data) with file, position and id if an id is not below the vocabulary's size or the file has shrunk.
  void read(int64_t first, int64_t count, int64_t* ids) const;

 private:
  std::filesystem::path path_;
  std::string hint_;
  InputFile file_;
  int64_t id_bytes_, vocab_size_, header_bytes_ = 0;
};

}  // namespace wmtp
