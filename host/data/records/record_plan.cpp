#include "data/records/record_plan.hpp"

#include "base/sha256.hpp"
#include "experiment/canonical.hpp"

namespace wmtp {

namespace fs = std::filesystem;

bool validates_by_problem(const Experiment& experiment) {
  return experiment.validation.given && experiment.validation.files.empty();
}

RecordPlan record_plan(const Experiment& experiment, const fs::path& cache) {
  const DataConfig& data = experiment.data;
  RecordPlan plan;
  plan.files = record_files(experiment);
  plan.needs = {data.select == AnswerSelection::correct, data.difficulty.given, data.format};
  const RecordContent content = record_content(experiment, plan.files, cache);
  const std::string format = "records " + std::to_string(records_format) + " ";
  const std::string tokenizer = format + to_string(data.tokenizer.kind) + " " +
                                std::to_string(data.tokenizer.vocab_size) + " " + content.tokenizer;
  if (data.tokenizer.kind == TokenizerKind::bpe)
    plan.tokenizer = cache / ("tokenizer-" + short_sha256_hex(tokenizer) + ".model");
  if (data.arithmetic.given)
    plan.arithmetic =
        cache / ("arithmetic-" + short_sha256_hex(format + table_text(experiment, "data.arithmetic")) + ".jsonl");
  std::string settings = tokenizer + " " + content.records + " " + data.format + " " + data.prompt_template + " " +
                         to_string(data.too_long) + " " + std::to_string(experiment.train.sequence_length);
  for (const bool flag : {plan.needs.correct, plan.needs.difficulty, validates_by_problem(experiment),
                          !experiment.validation.files.empty(), data.hold_out_problems})
    settings += flag ? " 1" : " 0";
  plan.folder = cache / short_sha256_hex(settings);
  return plan;
}

fs::path weights_folder(const RecordPlan& plan) {
  const std::string settings = "weights " + std::to_string(records_format) + " " + plan.folder.filename().string();
  return plan.folder.parent_path() / short_sha256_hex(settings);
}

fs::path records_folder(const Experiment& experiment, const fs::path& cache) {
  return record_plan(experiment, cache).folder;
}

}  // namespace wmtp
