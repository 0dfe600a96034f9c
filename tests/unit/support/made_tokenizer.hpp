// tokenizer.json files small enough to work their ids out by hand: a byte-level BPE, and one of SentencePiece's kind.
#pragma once

#include <cstdio>
#include <string>

#include "base/json.hpp"

namespace wmtp {

/// GPT-2's letter for a byte.
inline std::string letter_of(int byte) {
  int others = 0;
  const auto is_itself = [](int b) { return (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad); };
  for (int b = 0; b < byte; ++b) others += !is_itself(b);
  const int code = is_itself(byte) ? byte : 0x100 + others;
  if (code < 0x80) return std::string(1, char(code));
  return {char(0xc0 | code >> 6), char(0x80 | (code & 0x3f))};
}

inline Json added(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline Json read_model_tokenizer(Json vocabulary, Json merges, bool byte_fallback) {
  return {{"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", {{"type", "BPE"}, {"byte_fallback", byte_fallback}, {"vocab", vocabulary}, {"merges", merges}}}};
}

/// Bytes have their own ids; 256 is " a", 257 "ab", 258 " ab"; 259 <end>, 260 <tool>, which is not special.
inline Json byte_level_json() {
  Json vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary[letter_of(byte)] = byte;
  const std::string space = letter_of(' ');
  vocabulary[space + "a"] = 256;
  vocabulary["ab"] = 257;
  vocabulary[space + "ab"] = 258;
  auto made = read_model_tokenizer(vocabulary, {space + " a", "a b", space + "a b"}, false);
  made["added_tokens"] = {added(259, "<end>"), added(260, "<tool>", false)};
  made["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  made["decoder"] = {{"type", "ByteLevel"}};
  return made;
}

/// As Llama 2's: <unk> 0, <s> 1, </s> 2, bytes from 3 on, U+2581 259, a 260, b 261, "▁a" 262, "ab" 263, é 264.
inline Json sentencepiece_json() {
  const std::string mark = "\xe2\x96\x81";
  Json vocabulary{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocabulary[name] = 3 + byte;
  }
  int next = 259;
  for (const std::string& token :
       {mark, std::string("a"), std::string("b"), mark + "a", std::string("ab"), std::string("\xc3\xa9")})
    vocabulary[token] = next++;
  auto made = read_model_tokenizer(vocabulary, Json::parse("[[\"" + mark + "\",\"a\"],[\"a\",\"b\"]]"), true);
  made["added_tokens"] = {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")};
  made["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", mark}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}};
  made["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  made["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
  return made;
}

inline Json metaspace(const std::string& scheme, bool split = false) {
  return {{"type", "Metaspace"}, {"replacement", "\xe2\x96\x81"}, {"prepend_scheme", scheme}, {"split", split}};
}

}  // namespace wmtp
