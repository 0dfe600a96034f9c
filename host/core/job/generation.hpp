// What `wmtp-host generate` asks of the engine, and its answer. Plain values; knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace wmtp {

struct GenerateRequest {
  std::filesystem::path model;                             ///< a finished model's folder, see find_model
  std::variant<std::string, std::vector<int64_t>> prompt;  ///< text, or ids
  int64_t max_tokens = 128;
  double temperature = 0;  ///< 0: greedy
  double top_p = 1;        ///< in (0,1]
  uint64_t seed = 0;
  bool plain = false;                                                        ///< greedy without the other heads
  bool compares = false;                                                     ///< [drafts] decodes plainly too
  std::function<void(const std::string&)> show = [](const std::string&) {};  ///< gets the text, part by part
};

struct PlainDecoding {
  int64_t forwards = 0;
  double seconds = 0;
};
struct Generated {
  std::vector<int64_t> prompt, ids;    ///< ids: those that follow, with the one that ended the text
  std::optional<std::string> text;     ///< of `ids`; nothing where the model names no tokenizer
  std::string decoding;                ///< "speculative", "plain" or "sampled"
  int64_t heads = 1;                   ///< that were used
  int64_t forwards = 0;                ///< passes through the trunk, the prompt's own among them
  double seconds = 0;                  ///< from the prompt's pass to the last token; loading left out
  std::string end;                     ///< "max_tokens", "end_of_text" or "max_sequence_length"
  std::optional<PlainDecoding> plain;  ///< of the same ids, where it was to be compared with
};

/// What `wmtp-host eval` asks: answers to many prompts, of one model that is loaded once.
struct AnswerRequest {
  std::filesystem::path model;
  std::vector<std::string> prompts;
  int64_t samples = 1;  ///< of each prompt, drawn independently of each other
  int64_t max_tokens = 512;
  double temperature = 0;
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<std::string> stops;  ///< an answer ends before the first of them
  /// Gets each answer: the prompts in order, and again for the next sample. Nothing where the prompt is longer than
  /// what the model reads.
  std::function<void(size_t prompt, const std::optional<std::string>& answer)> take;
};

/// What `wmtp-host eval --text` asks: the losses of a model's heads on texts, in windows of the length it was made for.
struct PerplexityRequest {
  std::filesystem::path model;
  std::vector<std::filesystem::path> texts;
  int64_t stride = 0;  ///< tokens from one window's beginning to the next one's; 0: the window's length
};
struct HeadLoss {
  int64_t tokens = 0;  ///< that were predicted
  double loss = 0;     ///< mean cross entropy, nats
  int64_t bytes = 0;   ///< of text that these tokens stand for; those that begin or end a text stand for none
};

struct FoundModel {
  std::filesystem::path folder;
  int64_t run_id = 0;  ///< of the log; 0 where a folder was named
};

/// A finished model: `run_or_folder` is its folder, a run's folder, or, where there is no folder of that name, a run of
/// the log by its number, or by its name (the newest finished one). Error(usage) when there is
/// none, with the nearest name; Error(data) when the run has not finished or its model is gone.
FoundModel find_model(const std::string& run_or_folder, const std::filesystem::path& database);

/// Loads the engine, and with it the model. Error(usage) where the prompt does not suit the model, Error(data) where
/// the model cannot be used.
Generated generate_with_engine(const GenerateRequest& request);
/// Error(data) where the model cannot be used, or names no tokenizer.
void answer_with_engine(const AnswerRequest& request);
/// As losses_of_heads in perplexity.hpp.
std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request);

}  // namespace wmtp
