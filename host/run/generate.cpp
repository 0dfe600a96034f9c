#include "run/generate.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/model_files.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "data/tokenizer.hpp"
#include "data/utf8.hpp"
#include "decode/decode.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitStatus::usage, what); }

ModelConfig checked_config(const fs::path& folder) {
  if (fs::exists(folder / "manifest.json")) verify_checkpoint(folder);
  if (!SafetensorsFolder(folder).find("output.weight"))
    throw Error(ExitStatus::data, folder.string() + ": the model has no token heads (no tensor 'output.weight')" +
                                      (value_heads_of(folder).empty() ? "" : ": it is a critic's, and tells values") +
                                      "; text takes a model that was trained on tokens");
  return model_config_of(folder, ModelConfig{});
}

std::unique_ptr<Tokenizer> open_tokenizer_of(const fs::path& folder, const ModelConfig& config) {
  const ModelTokenizer named = tokenizer_of(folder);
  if (named.kind.empty()) return nullptr;
  auto tokenizer = named.kind == "byte" ? byte_tokenizer() : sentencepiece_tokenizer(named.file);
  if (tokenizer->vocab_size() > config.vocab_size)
    throw Error(ExitStatus::data, folder.string() + ": its tokenizer has " + with_thousands(tokenizer->vocab_size()) +
                                      " ids, the model " + with_thousands(config.vocab_size));
  return tokenizer;
}

std::vector<int64_t> ids_of_text(const GenerateRequest& request, const Tokenizer* tokenizer) {
  const auto& text = std::get<std::string>(request.prompt);
  if (!tokenizer)
    throw Error(ExitStatus::data,
                request.model.string() +
                    ": the model names no tokenizer, so no text can be made into its ids; give them " +
                    "with --ids \"1 2 3\"");
  if (text.empty()) refuse("the prompt is empty; a text to go on with takes at least one character");
  const size_t valid = valid_utf8(text);
  if (tokenizer_of(request.model).kind == "bpe" && valid < text.size())
    refuse("the prompt is not UTF-8 at byte " + with_thousands(int64_t(valid)) +
           ", and this model reads no other text");
  const std::vector<int32_t> ids = tokenizer->encode(text);
  return {ids.begin(), ids.end()};
}

std::vector<int64_t> prompt_ids(const GenerateRequest& request, const ModelConfig& config, const Tokenizer* tokenizer) {
  const auto* given = std::get_if<std::vector<int64_t>>(&request.prompt);
  const std::vector<int64_t> ids = given ? *given : ids_of_text(request, tokenizer);
  if (ids.empty()) refuse("--ids holds no id; a text to go on with takes at least one");
  for (const int64_t id : ids)
    if (id < 0 || id >= config.vocab_size)
      refuse("--ids: " + std::to_string(id) + " is no id of this model, whose vocabulary has " +
             with_thousands(config.vocab_size) + " (0 to " + std::to_string(config.vocab_size - 1) + ")");
  if (const int64_t most = config.max_sequence_length; most > 0 && int64_t(ids.size()) > most)
    refuse("the prompt has " + with_thousands(int64_t(ids.size())) + " tokens, the model reads at most " +
           with_thousands(most) + " (model.max_sequence_length); shorten it");
  return ids;
}

/// Places that the prompt and what follows take at most; the last token has no place, since none follows it. A model
/// that does not say how many it was made for is not held to any number.
int64_t positions_for(const GenerateRequest& request, const ModelConfig& config, int64_t prompt) {
  const int64_t most =
      config.max_sequence_length > 0 ? config.max_sequence_length : std::numeric_limits<int64_t>::max();
  return std::min(prompt + std::min(request.max_tokens, most) - 1, most);
}

/// The whole model in this process.
struct Alone {
  Peers peers{RankEnvironment{}, std::chrono::seconds(1)};
  Channels channels{peers, nullptr, nullptr, std::chrono::seconds(1)};
  std::unique_ptr<ShardedModel> model;

  Alone(const fs::path& weights, const ModelConfig& config, Heads heads, int64_t positions) {
    ShardedModelRequest request;
    request.layout.model = &config;
    request.layout.heads = heads;
    request.options.strategy = Strategy::no_shard;
    request.positions = positions;
    model = std::make_unique<ShardedModel>(request, channels);
    load_model(weights, *model);
  }
};

const char* text_of(Decoded::End end) {
  switch (end) {
    case Decoded::End::max_tokens:
      return "max_tokens";
    case Decoded::End::end_of_text:
      return "end_of_text";
    case Decoded::End::positions:
      return "max_sequence_length";
  }
  return "";
}

}  // namespace

Generated generate(const GenerateRequest& request) {
  const ModelConfig config = checked_config(request.model);
  const auto tokenizer = open_tokenizer_of(request.model, config);
  Generated result;
  result.prompt = prompt_ids(request, config, tokenizer.get());

  const bool greedy = request.temperature == 0, drafts = greedy && !request.plain && config.future_tokens > 1;
  const int64_t positions = positions_for(request, config, int64_t(result.prompt.size()));
  const Alone alone(request.model, config, drafts ? Heads::all : Heads::first, positions);
  CachedModel model(*alone.model, positions);

  DecodeRequest wanted;
  wanted.prompt = result.prompt;
  wanted.max_tokens = request.max_tokens;
  wanted.sampling = {request.temperature, request.top_p, request.seed};
  wanted.drafts = drafts;
  if (tokenizer) {
    wanted.end_of_text = tokenizer->end_of_text();
    result.text.emplace();
    wanted.take = [&](int64_t id) {
      const std::string part = tokenizer->decode({int32_t(id)});
      *result.text += part;
      request.show(part);
    };
  }
  const auto begun = std::chrono::steady_clock::now();
  Decoded decoded = decode(model, wanted);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  result.ids = std::move(decoded.ids);
  result.decoding = drafts ? "speculative" : greedy ? "plain" : "sampled";
  result.heads = model.num_heads();
  result.forwards = decoded.forwards;
  result.end = text_of(decoded.end);
  return result;
}

}  // namespace wmtp
