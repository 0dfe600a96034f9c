#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/work_progress.hpp"
#include "data/text/text_check.hpp"
#include "data/text/text_stream.hpp"
#include "data/tokens/text_windows.hpp"
#include "inference/model_requests.hpp"
#include "inference/text_model.hpp"
#include "memory/caught_error.hpp"
#include "step/step_runner.hpp"

namespace wmtp {
namespace {

constexpr int64_t max_window = 1024;  // if the model has no max_sequence_length

/// The texts of a file: one, or those of JSON lines.
std::vector<std::string> record_texts(const std::filesystem::path& file) {
  std::vector<std::string> texts;
  std::string piece(1 << 20, '\0');
  for (TextStream in(file); in.next_text();) {
    std::string& text = texts.emplace_back();
    while (const size_t got = in.read(piece.data(), piece.size())) text.append(piece, 0, got);
    if (text.empty()) texts.pop_back();
  }
  return texts;
}

/// The ids of the texts in order, each ended by end_of_text, as in a token file for training.
std::vector<int64_t> encode_prompt(const std::vector<std::filesystem::path>& texts, const TextModel& model) {
  std::vector<int64_t> ids;
  check_text_files(texts);
  for (const auto& file : texts)
    for (const std::string& text : record_texts(file)) {
      const std::vector<int64_t> text_ids = model.encode_prompt(text);
      ids.insert(ids.end(), text_ids.begin(), text_ids.end());
      if (ids.back() != model.tokenizer()->end_of_text()) ids.push_back(model.tokenizer()->end_of_text());
    }
  return ids;
}

/// The request's stride, by default the window's length.
size_t stride_of(const PerplexityRequest& request, size_t longest) {
  if (size_t(request.stride) > longest)
    throw Error(ExitStatus::usage, "--stride " + std::to_string(request.stride) + " skips tokens between windows of " +
                                       std::to_string(longest) + ", the model's sequence length; wanted at most that");
  return request.stride > 0 ? size_t(request.stride) : longest;
}

/// One sequence whose new tokens, except its first token, are targets.
MicroBatch micro_batch_of(const TextWindow& window, const std::vector<int64_t>& ids, const ModelConfig& model) {
  const auto S = int64_t(window.end - window.begin), first = int64_t(window.first_new - window.begin);
  MicroBatch micro;
  micro.batch.tokens =
      at::tensor(std::vector<int64_t>(ids.begin() + int64_t(window.begin), ids.begin() + int64_t(window.end)))
          .view({1, S});
  micro.batch.kind = at::full({1, S}, 2, at::kByte);
  micro.batch.sequence = at::zeros({1}, at::kLong);
  micro.targets = (at::arange(S) >= first).view({1, S});
  micro.offsets = model.future_offsets;
  for (int64_t head = 1; head <= model.future_tokens; ++head)
    micro.counts.push_back(S - std::max(micro.offset(head), first));
  micro.sequences = micro.windows = {0};
  return micro;
}

/// Bytes of text in the last `tokens` ids before `end`.
int64_t decoded_bytes(const std::vector<int64_t>& ids, size_t end, int64_t tokens, const Tokenizer& tokenizer) {
  const auto last = ids.begin() + int64_t(end);
  return int64_t(tokenizer.decode({last - tokens, last}).size());
}

}  // namespace

std::vector<HeadLoss> head_losses(const PerplexityRequest& request) try {
  TextModel model(request.model);
  const int64_t longest = model.config().max_sequence_length;
  const auto S = size_t(longest > 0 ? longest : max_window);
  const size_t stride = stride_of(request, S);
  const std::vector<int64_t> ids = encode_prompt(request.texts, model);
  model.load(/*drafts=*/true, int64_t(S));

  ActivePipeline nothing;  // without a weighting
  std::map<std::string, at::Tensor> pipeline_state;
  RankCollectives across(model.channels());
  const RunContext run_context{model.num_heads(), model.config().vocab_size, 0, 0, across, pipeline_state};
  StepRunnerConfig config;
  config.token_loss.chunk_tokens = chunk_tokens(model.config().vocab_size, /*on_cuda=*/false);
  StepRunner step_runner(model.model(), nothing, model.channels(), config);

  std::vector<HeadLoss> heads(size_t(model.num_heads()));
  WorkProgress progress("reading tokens", int64_t(ids.size()));
  const auto farthest = size_t(last_offset(model.config()));
  for (const TextWindow& window : split_into_windows(ids.size(), S, stride, farthest + 1)) {
    if (window.end - window.begin <= farthest) break;  // all of the text is too short for the last head
    const MicroBatch micro = micro_batch_of(window, ids, model.config());
    const StepCounts counts;
    StepTotals totals;
    MicroBatchContext step(run_context, {0, counts, totals}, micro);
    const std::vector<Scores> scores = step_runner.evaluate(step);
    for (size_t k = 0; k < heads.size(); ++k) {
      heads[k].tokens += micro.counts[k];
      heads[k].loss += scores[k].losses.sum(at::kDouble).item<double>();
      heads[k].bytes += decoded_bytes(ids, window.end, micro.counts[k], *model.tokenizer());
    }
    progress.advance(int64_t(window.end - window.first_new));
  }
  if (heads[0].tokens == 0)
    throw Error(ExitStatus::usage, "the text has " + std::to_string(ids.size()) + " tokens, wanted more than " +
                                       std::to_string(farthest) + ", as far as the model's last head predicts");
  for (HeadLoss& head : heads) {
    head.loss /= double(head.tokens);
    if (!std::isfinite(head.loss))
      throw Error(ExitStatus::data, request.model.string() +
                                        ": the loss of the text is not finite, so its weights are unusable; check how "
                                        "its run ended, or where it comes from");
  }
  return heads;
} catch (...) {
  rethrow_from("while the text was scored",
               "use a smaller model or shorter texts, or close other programs that use memory");
}

}  // namespace wmtp
