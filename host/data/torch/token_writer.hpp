// Encodes documents into a token file: each document's ids, then end_of_text, unless its text ends with that token;
// uint16 if the vocabulary allows, else uint32. Documents are read and encoded in pieces, so that a file may be larger
// than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_progress.hpp"
#include "data/text/documents.hpp"
#include "data/text/text_stream.hpp"
#include "io/durable_file.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {

/// "uint16" if the vocabulary has fewer than 65,536 ids, else "uint32".
std::string id_dtype(int64_t vocab_size);

/// Calls `on_piece` with pieces of about 1 MiB of each text until it returns false. Every piece except a text's first
/// begins with a newline, or with a complete character if lines are longer. Throws the errors of TextStream.
void for_each_piece(const std::filesystem::path& file, const std::function<bool(std::string_view)>& on_piece,
                    bool as_bytes = false);

/// Offset of the first invalid UTF-8 byte in the file's text, or -1.
int64_t first_non_utf8(const std::filesystem::path& file, bool as_bytes = false);

class TokenWriter {
 public:
  /// Creates `file`. Error(storage) here and below if it cannot be written.
  TokenWriter(const std::filesystem::path& file, const Tokenizer& tokenizer);

  /// Adds each document's ids and end_of_text. `progress`, if not null, counts bytes read.
  void add_documents(const TextPart& part, WorkProgress* progress = nullptr);
  /// Error(data) for an id outside the tokenizer's vocabulary; ids are never truncated.
  void add(const std::vector<int32_t>& ids);
  /// Writes the buffer and syncs the file.
  void finish() { file_.finish(); }
  int64_t num_ids() const { return num_ids_; }
  /// Ids of end_of_text inside of documents, whose texts contain that token.
  int64_t num_inner_ends() const { return num_ends_ - num_documents_; }

 private:
  void add_document(TextStream& in, int64_t left, WorkProgress* progress);

  DurableFile file_;
  const Tokenizer& tokenizer_;
  bool wide_;
  int64_t num_ids_ = 0, num_ends_ = 0, num_documents_ = 0;
};

}  // namespace wmtp
