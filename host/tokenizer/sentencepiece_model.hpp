// What this program reads of a SentencePiece model without the library, which the core does not link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// sentencepiece_model.proto: ModelProto.SentencePiece.
struct SentencePiece {
  enum Type : uint64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  std::string text;
  float score = 0;
  uint64_t type = normal;
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  bool is_bpe = false;
  bool keeps_texts = true;  ///< no normalization, no spaces added or removed
};

/// Error(data) if `file` is not a SentencePiece model.
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& file);

}  // namespace wmtp
