// Requests of `wmtp-host generate`, `eval`, `weigh`, `checkpoint merge` and `doctor` to the engine process, and its
// answers: plain values, sent as CBOR because texts may contain any bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/records/prompt.hpp"
#include "job/identity.hpp"
#include "plugins/description_json.hpp"

namespace wmtp {

struct GenerateRequest {
  std::filesystem::path model;      ///< folder of a finished model, see find_model
  std::optional<std::string> text;  ///< the prompt; else `chat` or `ids`
  std::optional<Prompt> chat;       ///< whose next answer is the text
  std::string prompt_template;      ///< of `chat`; "": the model's, see AnswerRequest
  std::vector<int64_t> ids;
  int64_t max_tokens = 128;
  double temperature = 0;  ///< 0: greedy
  double top_p = 1;        ///< in (0,1]
  uint64_t seed = 0;
  bool plain = false;     ///< greedy without the other heads
  bool compares = false;  ///< [drafts] decodes with drafts in every pass, then plainly
  bool streams = false;   ///< the engine writes the text to stdout as it is generated
  bool bf16 = false;      ///< rounds the weights to bf16
};

struct PlainDecoding {
  int64_t forwards = 0;
  double seconds = 0;
};
struct Generated {
  std::vector<int64_t> prompt, ids;    ///< ids: generated, including the one that ended the text
  std::optional<std::string> text;     ///< of `ids`; nullopt if the model names no tokenizer
  std::string decoding;                ///< "speculative", "plain" or "sampled"
  int64_t heads = 1;                   ///< number of heads used
  int64_t forwards = 0;                ///< passes through the trunk, including the prompt's
  int64_t drafted = 0;                 ///< of these, with drafts
  double seconds = 0;                  ///< from the prompt's pass to the last token, without loading
  std::string end;                     ///< "max_tokens", "end_of_text" or "max_sequence_length"
  std::optional<PlainDecoding> plain;  ///< of the same ids, with `compares`
};

/// Answers to many prompts from one model, which is loaded once.
struct AnswerRequest {
  std::filesystem::path model;
  std::vector<Prompt> prompts;
  /// One of prompt_templates(); "": that of the records that the model was trained on, else by the format of each
  /// prompt, as data.template.
  std::string prompt_template;
  int64_t samples = 1;  ///< per prompt, drawn independently
  int64_t max_tokens = 512;
  double temperature = 0;
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<std::string> stops;  ///< an answer ends before the first of them
};
/// [samples][prompts]; nullopt if the prompt is longer than the model's context.
using Answers = std::vector<std::vector<std::optional<std::string>>>;

/// Losses of a model's heads on texts, in windows of the model's sequence length.
struct PerplexityRequest {
  std::filesystem::path model;
  std::vector<std::filesystem::path> texts;
  int64_t stride = 0;  ///< tokens between the starts of adjacent windows; 0: the window's length
};
struct HeadLoss {
  int64_t tokens = 0;  ///< number of predicted tokens
  double loss = 0;     ///< mean cross entropy, nats
  int64_t bytes = 0;   ///< bytes of text that these tokens encode; special tokens encode none
};

/// The weightings of several files for the validation data of one experiment (job/weighing_job.hpp).
struct WeighRequest {
  std::filesystem::path model;               ///< folder of a finished model or complete checkpoint
  int64_t step = 0;                          ///< of the model; 0: unknown, taken for the last one
  std::string run, experiment;               ///< the model's run, in messages, and its resolved text; "": it has none
  int64_t data_ranks = 1;                    ///< groups of ranks of that run that read different sequences
  std::vector<std::filesystem::path> files;  ///< experiments with the weightings
  std::vector<std::string> overrides;        ///< --set, of each
  std::vector<Stages> stages;                ///< of each file, found in the log
  std::filesystem::path database;
  std::vector<std::filesystem::path> plugin_folders;
};

/// The weights of one weighting, and the model's losses, at N positions of the validation data without padding, in
/// order.
struct WeighedTokens {
  std::string pipeline;           ///< the plugin's name
  int64_t step = 0, steps = 0;    ///< as which the weighting was called, and the run's last one
  int64_t heads = 1;              ///< H
  std::vector<int64_t> sequence;  ///< [N] index in the validation data
  std::vector<int64_t> position;  ///< [N] in its sequence
  std::vector<int64_t> token;     ///< [N] id
  /// [N] what the token adds to the text of the one before it; "" for a special token, or without a tokenizer. Any
  /// bytes.
  std::vector<std::string> text;
  std::vector<std::string> shown;   ///< [N] the token alone, readable (token_text)
  std::vector<float> loss, weight;  ///< [N,H] of the prediction of the token by each head; NaN if it has none
};

/// One line of `doctor --device cuda`.
struct DeviceCheck {
  std::string what;
  bool good = true;
  std::string text;
};

struct MergeRequest {
  std::filesystem::path adapter;  ///< as written by a run or `checkpoint import`
  std::filesystem::path base;     ///< with params.json
  std::filesystem::path target;   ///< must not exist
  PluginSetting plugin;           ///< the adapter plugin
};

struct CompleteRequest {
  std::filesystem::path checkpoint;  ///< see is_partial_checkpoint
  std::filesystem::path target;      ///< must not exist
  PluginSetting plugin;              ///< the adapter of its base.json
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerateRequest, model, text, chat, prompt_template, ids, max_tokens, temperature,
                                   top_p, seed, plain, compares, streams, bf16)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlainDecoding, forwards, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Generated, prompt, ids, text, decoding, heads, forwards, drafted, seconds, end,
                                   plain)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AnswerRequest, model, prompts, prompt_template, samples, max_tokens, temperature,
                                   top_p, seed, stops)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PerplexityRequest, model, texts, stride)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeadLoss, tokens, loss, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WeighRequest, model, step, run, experiment, data_ranks, files, overrides, stages,
                                   database, plugin_folders)
void to_json(Json& out, const WeighedTokens& tokens);
void from_json(const Json& in, WeighedTokens& tokens);
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceCheck, what, good, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MergeRequest, adapter, base, target, plugin)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompleteRequest, checkpoint, target, plugin)

}  // namespace wmtp
