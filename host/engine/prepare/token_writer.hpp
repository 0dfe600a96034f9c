// Documents to a file of ids: each document's ids, then end_of_text; uint16 where the vocabulary allows, else uint32.
// Documents are read and encoded piece by piece, so that a file may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_progress.hpp"
#include "core/documents/documents.hpp"
#include "core/tokenizer/tokenizer.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

/// "uint16" when every id of the vocabulary fits, with one to spare, else "uint32".
std::string id_dtype(int64_t vocab_size);

/// Gives `file` to `take` in pieces of about 1 MiB, each but the first beginning with a newline (where lines are
/// shorter than that; else with a character), until `take` returns false. Error(data) when it cannot be read.
void for_each_piece(const std::filesystem::path& file, const std::function<bool(std::string_view)>& take);

/// Offset of the first byte that is not UTF-8, or -1.
int64_t first_non_utf8(const std::filesystem::path& file);

class TokenWriter {
 public:
  /// Creates `file`. Error(storage) here and below when the disk refuses.
  TokenWriter(const std::filesystem::path& file, const Tokenizer& tokenizer);

  /// Of each document its ids and end_of_text. `progress`, where there is one, is told of the bytes that are read.
  void add_documents(const TextPart& part, WorkProgress* progress = nullptr);
  /// Error(data) for an id that is none of the tokenizer's: what does not fit is never cut.
  void add(const std::vector<int32_t>& ids);
  /// Writes what is left and syncs it to the disk.
  void finish() { file_.finish(); }
  int64_t num_ids() const { return num_ids_; }

 private:
  void add_document(std::istream& in, int64_t left, WorkProgress* progress);

  DurableFile file_;
  const Tokenizer& tokenizer_;
  bool wide_;
  int64_t num_ids_ = 0;
};

}  // namespace wmtp
