// Requests of `wmtp-host generate`, `eval`, `checkpoint merge` and `doctor` to the engine's process, and its answers. Plain
// values with their JSON, sent as CBOR because texts may contain any bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plugins/description_json.hpp"

namespace wmtp {

struct GenerateRequest {
  std::filesystem::path model;      ///< a finished model's folder, see find_model
  std::optional<std::string> text;  ///< the prompt; else `ids`
  std::vector<int64_t> ids;
  int64_t max_tokens = 128;
  double temperature = 0;  ///< 0: greedy
  double top_p = 1;        ///< in (0,1]
  uint64_t seed = 0;
  bool plain = false;     ///< greedy without the other heads
  bool compares = false;  ///< [drafts] decodes plainly too
  bool streams = false;   ///< the engine writes the text to stdout, part by part
};

struct PlainDecoding {
  int64_t forwards = 0;
  double seconds = 0;
};
struct Generated {
  std::vector<int64_t> prompt, ids;    ///< ids: the generated ones, with the one that ended the text
  std::optional<std::string> text;     ///< of `ids`; nothing where the model names no tokenizer
  std::string decoding;                ///< "speculative", "plain" or "sampled"
  int64_t heads = 1;                   ///< that were used
  int64_t forwards = 0;                ///< passes through the trunk, including the prompt's
  double seconds = 0;                  ///< from the prompt's pass to the last token, without loading
  std::string end;                     ///< "max_tokens", "end_of_text" or "max_sequence_length"
  std::optional<PlainDecoding> plain;  ///< of the same ids, with `compares`
};

/// Answers to many prompts from one model that is loaded once.
struct AnswerRequest {
  std::filesystem::path model;
  std::vector<std::string> prompts;
  int64_t samples = 1;  ///< of each prompt, drawn independently of each other
  int64_t max_tokens = 512;
  double temperature = 0;
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<std::string> stops;  ///< an answer ends before the first of them
};
/// [samples][prompts]: nothing where the prompt is longer than the model's context.
using Answers = std::vector<std::vector<std::optional<std::string>>>;

/// The losses of a model's heads on texts, in windows of the model's sequence length.
struct PerplexityRequest {
  std::filesystem::path model;
  std::vector<std::filesystem::path> texts;
  int64_t stride = 0;  ///< tokens from the start of one window to the start of the next; 0: the window's length
};
struct HeadLoss {
  int64_t tokens = 0;  ///< that were predicted
  double loss = 0;     ///< mean cross entropy, nats
  int64_t bytes = 0;   ///< of text that these tokens encode; tokens that begin or end a text encode none
};

/// One line of `doctor --device cuda`.
struct DeviceCheck {
  std::string what;
  bool good = true;
  std::string text;
};

struct MergeRequest {
  std::filesystem::path adapter;  ///< as a run or `checkpoint import` writes it
  std::filesystem::path base;     ///< with params.json
  std::filesystem::path target;   ///< must not exist
  PluginSetting plugin;           ///< the adapter's
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerateRequest, model, text, ids, max_tokens, temperature, top_p, seed, plain,
                                   compares, streams)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainDecoding, forwards, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Generated, prompt, ids, text, decoding, heads, forwards, seconds, end, plain)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AnswerRequest, model, prompts, samples, max_tokens, temperature, top_p, seed, stops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PerplexityRequest, model, texts, stride)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeadLoss, tokens, loss, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceCheck, what, good, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MergeRequest, adapter, base, target, plugin)

}  // namespace wmtp
