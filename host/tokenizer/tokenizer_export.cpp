#include "tokenizer/tokenizer_export.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "tokenizer/sentencepiece_model.hpp"
#include "tokenizer/tokenizer_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// All pairs of pieces that join to a piece, by descending score of the result, then by ids.
Json merges_of(const SentencePieceModel& model, const std::unordered_map<std::string_view, size_t>& ids) {
  std::vector<std::tuple<float, size_t, size_t>> merges;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != SentencePiece::normal) continue;
    for (size_t at = 1; at < piece.text.size(); ++at) {
      const std::string_view text = piece.text;
      const auto left = ids.find(text.substr(0, at)), right = ids.find(text.substr(at));
      if (left != ids.end() && right != ids.end()) merges.emplace_back(-piece.score, left->second, right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  Json list = Json::array();
  for (const auto& [score, left, right] : merges) list.push_back({model.pieces[left].text, model.pieces[right].text});
  return list;
}

Json added_token(size_t id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

}  // namespace

Json byte_tokenizer_json() {
  constexpr unsigned bytes = 256;
  Json vocabulary = Json::object();
  for (unsigned byte = 0; byte < bytes; ++byte) vocabulary[byte_letters()[byte]] = byte;
  const Json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added_token(bytes, byte_begin_token, true), added_token(bytes + 1, byte_end_token, true)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", Json::array()}}}};
}

bool is_sentencepiece_bpe(const fs::path& model) { return read_sentencepiece_model(model).is_bpe; }

std::optional<Json> sentencepiece_tokenizer_json(const fs::path& file) {
  const SentencePieceModel model = read_sentencepiece_model(file);
  if (!model.is_bpe || !model.keeps_texts) return std::nullopt;
  Json vocabulary = Json::object(), added = Json::array();
  std::unordered_map<std::string_view, size_t> ids;
  std::string unknown;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    vocabulary[piece.text] = id;
    if (piece.type == SentencePiece::normal) ids.emplace(piece.text, id);
    if (piece.type == SentencePiece::unknown) unknown = piece.text;
    if (piece.type == SentencePiece::unknown || piece.type == SentencePiece::control ||
        piece.type == SentencePiece::user_defined)
      added.push_back(added_token(id, piece.text, piece.type != SentencePiece::user_defined));
  }
  const Json space{{"String", " "}}, mark{{"String", space_mark}};
  return Json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", std::move(added)},
              {"normalizer", {{"type", "Replace"}, {"pattern", space}, {"content", space_mark}}},
              {"pre_tokenizer", nullptr},
              {"post_processor", nullptr},
              {"decoder",
               {{"type", "Sequence"},
                {"decoders",
                 {{{"type", "Replace"}, {"pattern", mark}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}}}}},
              {"model",
               {{"type", "BPE"},
                {"unk_token", unknown},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"vocab", std::move(vocabulary)},
                {"merges", merges_of(model, ids)}}}};
}

Json exported_tokenizer_config(const std::string& begin, const std::string& end) {
  return {{"add_bos_token", false}, {"bos_token", begin},           {"clean_up_tokenization_spaces", false},
          {"eos_token", end},       {"split_special_tokens", true}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
}

}  // namespace wmtp
