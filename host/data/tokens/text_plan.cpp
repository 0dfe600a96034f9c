#include "data/tokens/text_plan.hpp"

#include "base/sha256.hpp"
#include "io/prepared_folder.hpp"

namespace wmtp {

TextPlan text_plan(const Experiment& experiment, const std::filesystem::path& cache) {
  TextPlan plan;
  plan.split = split_text(experiment);
  const TextContent content = text_content(experiment, plan.split, cache);
  const TokenizerConfig& tokenizer = experiment.data.tokenizer;
  const std::string settings = "format " + std::to_string(text_format_version) + " " + to_string(tokenizer.kind) + " " +
                               std::to_string(tokenizer.vocab_size) + " " + content.tokenizer;
  if (tokenizer.kind == TokenizerKind::bpe)
    plan.tokenizer = cache / ("tokenizer-" + short_sha256_hex(settings) + ".model");
  plan.folder = cache / short_sha256_hex(settings + " " + content.train + " " + content.validation);
  return plan;
}

std::optional<int64_t> prepared_text_windows(const Experiment& experiment, const std::filesystem::path& cache) {
  const auto prepared = read_prepared(text_plan(experiment, cache).folder);
  if (!prepared) return std::nullopt;
  return prepared->at("train").at("tokens").get<int64_t>() / experiment.train.sequence_length;
}

}  // namespace wmtp
