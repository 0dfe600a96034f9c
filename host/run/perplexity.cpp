#include "run/perplexity.hpp"

#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/work_progress.hpp"
#include "run/text_model.hpp"
#include "train/micro_step.hpp"

namespace wmtp {
namespace {

constexpr int64_t longest_window = 1024;  // where the model does not say how many tokens it was made for

std::string content_of(const std::filesystem::path& file) {
  check_is_file(file);
  std::ifstream in(file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) throw Error(ExitStatus::data, file.string() + ": it cannot be read; check the path");
  return text;
}

/// Each text, and the id that ends it, behind the one before: as they stand in a file of ids that is trained on.
std::vector<int64_t> ids_of(const std::vector<std::filesystem::path>& texts, const TextModel& model) {
  std::vector<int64_t> ids;
  for (const auto& file : texts) {
    const std::vector<int64_t> of_text = model.ids_of(content_of(file));
    ids.insert(ids.end(), of_text.begin(), of_text.end());
    ids.push_back(model.tokenizer()->end_of_text());
  }
  return ids;
}

/// One sequence; every token but its first is a target.
MicroBatch window(const std::vector<int64_t>& ids, size_t begin, size_t size, int64_t heads) {
  const auto S = int64_t(size);
  MicroBatch micro;
  micro.batch.tokens =
      at::tensor(std::vector<int64_t>(ids.begin() + int64_t(begin), ids.begin() + int64_t(begin) + S)).view({1, S});
  micro.batch.kind = at::full({1, S}, 2, at::kByte);
  micro.batch.sequence = at::zeros({1}, at::kLong);
  micro.targets = at::ones({1, S}, at::kBool);
  for (int64_t head = 1; head <= heads; ++head) micro.counts.push_back(std::max<int64_t>(0, S - head));
  micro.positions = micro.windows = {0};
  return micro;
}

}  // namespace

std::vector<HeadLoss> losses_of_heads(const PerplexityRequest& request) {
  TextModel model(request.model);
  const int64_t longest = model.config().max_sequence_length;
  const auto S = size_t(longest > 0 ? longest : longest_window);
  const std::vector<int64_t> ids = ids_of(request.texts, model);
  model.load(/*drafts=*/true, int64_t(S));

  PipelineInUse nothing;  // is weighed
  std::map<std::string, at::Tensor> states;
  AcrossRanks across(model.channels());
  HostStep step({model.num_heads(), model.config().vocab_size, 0}, across, states);
  MicroStepConfig config;
  config.token_loss.chunk_tokens = chunk_tokens(model.config().vocab_size);
  MicroStep micro_step(model.model(), nothing, step, model.channels(), config);

  std::vector<HeadLoss> heads(size_t(model.num_heads()));
  WorkProgress progress("reading tokens", int64_t(ids.size()));
  for (size_t begin = 0; begin < ids.size(); begin += S) {
    const size_t size = std::min(S, ids.size() - begin);
    if (size <= heads.size()) break;  // too short for the last head
    const MicroBatch micro = window(ids, begin, size, model.num_heads());
    StepTotals totals;
    const std::vector<Scores> scores = micro_step.evaluate(micro, totals);
    for (size_t k = 0; k < heads.size(); ++k) {
      heads[k].tokens += micro.counts[k];
      heads[k].loss += scores[k].losses.sum(at::kDouble).item<double>();
    }
    progress.done(int64_t(size));
  }
  if (heads[0].tokens == 0)
    throw Error(ExitStatus::usage, "the text has " + std::to_string(ids.size()) +
                                       " tokens, wanted more than the model's " + std::to_string(heads.size()) +
                                       " heads");
  for (HeadLoss& head : heads) head.loss /= double(head.tokens);
  return heads;
}

}  // namespace wmtp
