#include <algorithm>
#include <chrono>
#include <deque>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/time_use.hpp"
#include "base/work_progress.hpp"
#include "inference/model_requests.hpp"
#include "inference/text_model.hpp"
#include "memory/caught_error.hpp"

namespace wmtp {
namespace {

constexpr const char* memory_advice = "use a smaller model or fewer tokens, or close other programs that use memory";

[[noreturn]] void refuse(const std::string& what) { throw Error(ExitStatus::usage, what); }

TextPrompt prompt_of(const GenerateRequest& request, TextModel& model) {
  if (request.chat) return model.encode_prompt(*request.chat, request.prompt_template);
  return {request.text ? model.encode_prompt(*request.text) : request.ids, model.ends(), {}};
}

void check_ids(const std::vector<int64_t>& ids, const TextModel& model) {
  const ModelConfig& config = model.config();
  if (ids.empty()) refuse("--ids is empty; a prompt needs at least one id");
  for (const int64_t id : ids)
    if (id < 0 || id >= config.vocab_size)
      refuse("--ids: " + std::to_string(id) + " is not a valid id of this model, whose vocabulary has " +
             with_thousands(config.vocab_size) + " ids (0 to " + std::to_string(config.vocab_size - 1) + ")");
  if (!model.fits(int64_t(ids.size())))
    refuse("the prompt has " + with_thousands(int64_t(ids.size())) + " tokens, but the model accepts at most " +
           with_thousands(config.max_sequence_length) + " (model.max_sequence_length); shorten it");
}

/// The same text without drafts: decoded second, so that warm-up costs count against the drafts.
PlainDecoding decode_plainly(TextModel& model, DecodeRequest request, const std::vector<int64_t>& drafted) {
  request.drafts = Drafts::none;
  request.on_token = [left = drafted.size()](int64_t) mutable { return --left > 0; };  // a text may end by its limits
  const auto begun = std::chrono::steady_clock::now();
  const Decoded plain = model.decode(request);
  const double seconds = seconds_since(begun);
  if (plain.ids != drafted) throw Error(ExitStatus::bug, "speculative and plain decoding gave different ids");
  return {plain.forwards, seconds};
}

TextPrompt encoded_prompt(const AnswerRequest& request, const Prompt& prompt, size_t before, TextModel& model) try {
  return model.encode_prompt(prompt, request.prompt_template);
} catch (const Error& error) {
  if (request.prompts.size() == 1) throw;
  throw Error(error.status(), "prompt " + with_thousands(int64_t(before) + 1) + " of " +
                                  with_thousands(int64_t(request.prompts.size())) + ": " + error.what());
}

/// How many texts to decode together: more share the cost of reading each weight, and each caches its keys and values.
int64_t texts_together(const ModelConfig& config, int64_t positions, int64_t answers) {
  constexpr int64_t most = 64, cache_bytes = int64_t{1} << 30;
  const int64_t blocks = config.layers - config.future_tokens + 1;
  const int64_t bytes_of_text = 2 * blocks * config.kv_heads * head_dim(config) * positions * int64_t(sizeof(float));
  return std::clamp<int64_t>(std::min(cache_bytes / bytes_of_text, answers), 1, most);
}

}  // namespace

Generated generate(const GenerateRequest& request, const std::function<void(const std::string&)>& show) try {
  TextModel model(request.model);
  Generated result;
  const TextPrompt prompt = prompt_of(request, model);
  check_ids(prompt.ids, model);
  result.prompt = prompt.ids;
  const bool drafts = request.temperature == 0 && !request.plain && model.config().future_tokens > 1;
  if (request.compares && !drafts)
    refuse("--compare requires drafts, but " + request.model.string() + " has one head and makes no drafts");
  model.load(drafts, model.positions_for(int64_t(result.prompt.size()), request.max_tokens), /*texts=*/1,
             request.bf16 ? at::kBFloat16 : at::kFloat);

  DecodeRequest wanted;
  wanted.prompt = result.prompt;
  wanted.max_tokens = request.max_tokens;
  wanted.sampling = {request.temperature, request.top_p, request.seed};
  wanted.drafts = !drafts ? Drafts::none : request.compares ? Drafts::always : Drafts::adaptive;
  wanted.ends = prompt.ends;
  AnswerText text(prompt.limits);
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer)
    wanted.on_token = [&](int64_t id) {
      const bool goes_on = text.add(tokenizer->decode({int32_t(id)}));
      show(text.take_certain());
      return goes_on;
    };
  const auto begun = std::chrono::steady_clock::now();
  Decoded decoded = model.decode(wanted);
  result.seconds = seconds_since(begun);
  if (tokenizer) {
    show(text.take_rest());
    result.text = text.text();
  }
  if (request.compares) result.plain = decode_plainly(model, wanted, decoded.ids);
  result.ids = std::move(decoded.ids);
  result.decoding = drafts ? "speculative" : request.temperature == 0 ? "plain" : "sampled";
  result.heads = model.num_heads();
  result.forwards = decoded.forwards;
  result.drafted = decoded.drafted;
  // What stops a text here is the text that ends an answer in the template.
  result.end = to_string(decoded.end == Decoded::End::stopped ? Decoded::End::end_of_text : decoded.end);
  return result;
} catch (...) {
  rethrow_from("while text was generated", memory_advice);
}

Answers write_answers(const AnswerRequest& request) try {
  TextModel model(request.model);
  std::vector<TextPrompt> prompts;
  int64_t positions = 1, fitting = 0;
  for (const Prompt& asked : request.prompts) {
    TextPrompt& prompt = prompts.emplace_back(encoded_prompt(request, asked, prompts.size(), model));
    prompt.limits.stops.insert(prompt.limits.stops.end(), request.stops.begin(), request.stops.end());
    const auto tokens = int64_t(prompt.ids.size());
    if (!model.fits(tokens)) continue;
    ++fitting;
    positions = std::max(positions, model.positions_for(tokens, request.max_tokens));
  }
  const int64_t together = texts_together(model.config(), positions, fitting * request.samples);
  model.load(/*drafts=*/false, positions, together + 1);  // and one that holds the newest prompt
  Answers answers(size_t(request.samples), std::vector<std::optional<std::string>>(prompts.size()));
  std::vector<DecodeRequest> wanted;
  std::deque<AnswerText> texts;  // of the requests, which refer to them
  std::vector<std::optional<std::string>*> places;
  for (size_t i = 0; i < prompts.size(); ++i)  // the samples of a prompt follow one another: it is read once
    for (int64_t sample = 0; model.fits(int64_t(prompts[i].ids.size())) && sample < request.samples; ++sample) {
      AnswerText& text = texts.emplace_back(prompts[i].limits);
      places.push_back(&answers[size_t(sample)][i]);
      DecodeRequest& one = wanted.emplace_back();
      one.prompt = prompts[i].ids;
      one.max_tokens = request.max_tokens;
      one.sampling = {request.temperature, request.top_p, request.seed, uint32_t(i), uint32_t(sample)};
      one.ends = prompts[i].ends;
      one.on_token = [&](int64_t id) { return text.add(model.tokenizer()->decode({int32_t(id)})); };
    }
  WorkProgress progress("answering", int64_t(wanted.size()));
  model.decode_all(wanted, [&] { progress.advance(1); });
  for (size_t i = 0; i < places.size(); ++i) *places[i] = texts[i].text();
  return answers;
} catch (...) {
  rethrow_from("while prompts were answered", memory_advice);
}

}  // namespace wmtp
