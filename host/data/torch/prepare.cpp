#include "data/torch/prepare.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/records/record_plan.hpp"
#include "data/text/documents.hpp"
#include "data/tokens/corpus.hpp"
#include "data/tokens/step_count.hpp"
#include "data/tokens/text_plan.hpp"
#include "data/tokens/token_split.hpp"
#include "data/tokens/token_windows.hpp"
#include "data/torch/record_prepare.hpp"
#include "data/torch/token_writer.hpp"
#include "experiment/key_place.hpp"
#include "experiment/toml/value_rule.hpp"
#include "io/durable_file.hpp"
#include "io/prepared_folder.hpp"
#include "memory/caught_error.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/torch/tokenizers.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Log = std::function<void(const std::string&)>;

constexpr size_t max_warnings = 5;

/// Encodes `parts` into `folder`/`name`.bin and returns their entry of prepared.json. `warn`: whether to log skipped
/// files; if both parts come from the same files, only the training part does.
Json encode_parts(const std::vector<TextPart>& parts, const std::string& name, bool warn, const Tokenizer& tokenizer,
                  const fs::path& folder, const Log& log) {
  const bool needs_utf8 = tokenizer.reads() == Tokenizer::Reads::utf8;
  const int64_t bytes = document_bytes(parts);
  std::vector<std::string> skipped;
  TokenWriter writer(folder / (name + ".bin"), tokenizer);
  log("encoding " + counted(int64_t(parts.size()), "file") + " for " + name + " (" + human_bytes(bytes) + ")");
  {
    WorkProgress progress("encoding " + name, bytes, WorkProgress::Unit::bytes);
    for (const TextPart& part : parts) {
      const int64_t bad = needs_utf8 ? first_non_utf8(part.file, part.as_bytes) : -1;
      if (bad < 0)
        writer.add_documents(part, &progress);
      else
        skipped.push_back("skipped " + part.file.string() + ": not UTF-8 at byte " + with_thousands(bad));
    }
    writer.finish();
  }
  for (size_t i = 0; warn && i < std::min(skipped.size(), max_warnings); ++i) log("warning: " + skipped[i]);
  if (warn && skipped.size() > max_warnings)
    log("warning: skipped " + with_thousands(int64_t(skipped.size() - max_warnings)) +
        " more files that are not UTF-8");
  return {{"files", parts.size()},
          {"skipped", skipped.size()},
          {"bytes", bytes},
          {"tokens", writer.num_ids()},
          {"inner_ends", writer.num_inner_ends()}};
}

/// As a TOML string that says \r, which toml_text writes as a code point.
std::string separator_text(const std::string& separator) {
  std::string text = toml_text(Value(separator));
  const std::string code_point = "\\u000D";
  for (size_t at = 0; (at = text.find(code_point, at)) != std::string::npos;)
    text.replace(at, code_point.size(), "\\r");
  return text;
}

/// Without one separator each file is one document, so that packing and validation.share know no borders. A stage has
/// the separator of the experiment that holds out a share of its files, which other files of its own may lack.
void check_separator(const Experiment& experiment, const TextSplitting& splitting, const SplitParts& all,
                     size_t num_files, const Log& log) {
  if (all.unseparated.empty()) return;
  const bool everywhere = all.unseparated.size() == num_files, is_inherited = experiment.data.hold_out_share > 0;
  const std::string key = "data.separator = " + separator_text(splitting.separator);
  const std::string first = all.unseparated.front().string();
  const auto [other, file] = find_other_line_ends(all.unseparated, splitting);
  const bool has_crlf = other.find('\r') != std::string::npos;
  const std::string line_ends =
      file.string() + " has it with " + (has_crlf ? "CRLF" : "LF") + " line ends: separator = " + separator_text(other);
  if (everywhere && !is_inherited)
    throw Error(ExitStatus::data,
                key_place(experiment, "data.separator") + ": " + key + " is not found in any file of the data (" +
                    (num_files == 1 ? first : with_thousands(int64_t(num_files)) + " files") + "); " +
                    (other.empty() ? "correct it, or remove it: each file is then one document" : line_ends));
  log((other.empty() ? "" : "warning: ") + counted(all.documents, "document") + " of " +
      counted(int64_t(num_files), "file") + ": " +
      (everywhere ? "none" : with_thousands(int64_t(num_files - all.unseparated.size()))) + " of them with " + key +
      (other.empty() ? "" : "; " + line_ends));
}

void build(const Experiment& experiment, const TextPlan& plan, const Log& log) {
  FolderDraft draft(plan.folder);
  const TokenizerConfig& config = experiment.data.tokenizer;
  const bool by_share = experiment.validation.share > 0, as_bytes = experiment.data.encoding == TextEncoding::bytes;
  const TextSplitting splitting = text_splitting(experiment);
  SplitParts parts = split_files(plan.split.train, splitting);
  if (!by_share) {
    SplitParts held_out = split_files(plan.split.validation, {splitting.separator, 0, 0, as_bytes});
    parts.validation = std::move(held_out.train);
    parts.documents += held_out.documents;
    std::ranges::move(held_out.unseparated, std::back_inserter(parts.unseparated));
  }
  check_separator(experiment, splitting, parts, plan.split.train.size() + (by_share ? 0 : plan.split.validation.size()),
                  log);
  const auto tokenizer = prepare_tokenizer(
      experiment, plan.tokenizer, draft.path(),
      [&] {
        return config.files.empty() ? parts.train : whole_files(tokenizer_files(experiment, plan.split), as_bytes);
      },
      log);
  Json prepared{{"format", text_format_version},
                {"tokenizer", to_string(experiment.data.tokenizer.kind)},
                {"vocab_size", tokenizer->vocab_size()},
                {"end_of_text", tokenizer->end_of_text()},
                {"dtype", id_dtype(tokenizer->vocab_size())}};
  prepared["train"] = encode_parts(parts.train, "train", true, *tokenizer, draft.path(), log);
  if (by_share || !plan.split.validation.empty())
    prepared["validation"] = encode_parts(parts.validation, "validation", !by_share, *tokenizer, draft.path(), log);
  publish_prepared(draft, std::move(prepared));
}

/// Logs the result of validation.share, the only split that cannot be seen in lists of files.
void log_shares(const Experiment& experiment, const Json& prepared, const Log& log) {
  if (held_out_share(experiment) == 0) return;
  const auto tokens = [&](const char* part) { return with_thousands(prepared[part]["tokens"].get<int64_t>()); };
  const auto last = [](double share) { return printed("the last %g%% of each file", 100 * share); };
  log(tokens("train") + " tokens to train on, " +
      (experiment.validation.share > 0
           ? tokens("validation") + " for validation (" + last(experiment.validation.share) + ")"
           : last(held_out_share(experiment)) + " is held out"));
}

/// With packing every end_of_text separates, also one that ends a turn of a chat.
void log_inner_ends(const Experiment& experiment, const Json& prepared, const Log& log) {
  const int64_t ends = prepared["train"]["inner_ends"];
  if (!experiment.data.packing || ends == 0) return;
  log("warning: data.packing also separates inside of documents, after the " + with_thousands(ends) +
      " places in their texts that are read as the tokenizer's end_of_text; records keep the turns of a chat together");
}

std::unique_ptr<TokenWindows> open_part(const Experiment& experiment, const fs::path& folder, const Json& prepared,
                                        const std::string& part) {
  const int64_t tokens = prepared[part]["tokens"], length = experiment.train.sequence_length;
  const bool by_share = part == "validation" && experiment.validation.share > 0;
  if (by_share && prepared[part]["files"] == 0)
    throw Error(ExitStatus::data,
                printed("nothing is held out: no file has several documents or a newline before its last %g%%; set "
                        "data.separator, or set validation.files instead of validation.share",
                        100 * experiment.validation.share));
  if (tokens < length)
    throw Error(ExitStatus::data, "the " + part + " text has " + with_thousands(tokens) +
                                      " tokens, fewer than one window of " + with_thousands(length) + "; " +
                                      (by_share          ? "raise validation.share, add files to data.files,"
                                       : part == "train" ? "add files to data.files"
                                                         : "add files to validation.files") +
                                      " or lower train.sequence_length");
  return open_token_file(folder / (part + ".bin"), prepared["dtype"], length, experiment.model.vocab_size);
}

/// Of token files only the tokenizer is prepared, where there is one.
fs::path tokenizer_folder(const Experiment& experiment, const fs::path& cache) {
  const std::string hash = tokenizer_hash(experiment.resolve(experiment.data.tokenizer.file));
  return cache / short_sha256_hex("tokenizer of token files " + std::to_string(text_format_version) + " " + hash);
}

void prepare_text(const Experiment& experiment, const fs::path& cache, const Log& log) {
  const TextPlan plan = text_plan(experiment, cache);
  for (const std::string& warning : file_warnings(plan.split)) log("warning: " + warning);
  if (!read_prepared(plan.folder)) build(experiment, plan, log);
  if (const auto prepared = read_prepared(plan.folder)) {
    log_shares(experiment, *prepared, log);
    log_inner_ends(experiment, *prepared, log);
  }
}

void prepare_tokens(const Experiment& experiment, const fs::path& cache, const Log& log) {
  const TextSplit files = split_text(experiment);
  for (const std::string& warning : file_warnings(files)) log("warning: " + warning);
  split_tokens(experiment, files);
  if (!experiment.data.tokenizer.given) return;
  const fs::path folder = tokenizer_folder(experiment, cache);
  if (read_prepared(folder)) return;
  FolderDraft draft(folder);
  const auto tokenizer = prepare_tokenizer(experiment, {}, draft.path(), {}, log);
  publish_prepared(draft, {{"format", text_format_version},
                           {"tokenizer", to_string(experiment.data.tokenizer.kind)},
                           {"vocab_size", tokenizer->vocab_size()},
                           {"end_of_text", tokenizer->end_of_text()}});
}

Json read_prepared_folder(const fs::path& folder, const std::string& what) {
  if (const auto prepared = read_prepared(folder)) return *prepared;
  throw Error(ExitStatus::data, what + " not prepared: " + folder.string() + " is missing or damaged");
}

/// The size and time of a file stand for its ids, which would take long to read.
std::string identity_of(const std::vector<TokenRange>& ranges, const std::string& dtype) {
  std::string text;
  for (const TokenRange& range : ranges)
    text += (text.empty() ? "" : ", ") + range.file.string() + " (" + dtype + ") of " +
            std::to_string(fs::file_size(range.file)) + " bytes at " +
            std::to_string(fs::last_write_time(range.file).time_since_epoch().count()) +
            (range.first == 0 ? "" : " from id " + std::to_string(range.first)) +
            (range.count == range.layout.count ? "" : " up to id " + std::to_string(range.first + range.count));
  return text;
}

Prepared open_tokens(const Experiment& experiment, const fs::path& cache, int64_t data_ranks) {
  const TokenSplit split = split_tokens(experiment);
  TokenParts parts = open_token_parts(experiment, split, data_ranks);
  Prepared result;
  result.train = std::move(parts.train);
  result.validation = std::move(parts.validation);
  result.identity = identity_of(split.train, experiment.data.dtype);
  result.held_out_identity = identity_of(split.validation, experiment.data.dtype);
  if (!experiment.data.tokenizer.given) return result;
  result.folder = tokenizer_folder(experiment, cache);
  read_prepared_folder(result.folder, "the tokenizer is");
  result.tokenizer = open_tokenizer(experiment, tokenizer_file_in(result.folder));
  return result;
}

}  // namespace

void prepare_data(const Experiment& experiment, const fs::path& cache, const Log& log, bool weights) try {
  if (experiment.data.kind == DataKind::records) return prepare_records(experiment, cache, log, weights);
  if (experiment.data.kind == DataKind::tokens) return prepare_tokens(experiment, cache, log);
  if (experiment.data.kind == DataKind::text) prepare_text(experiment, cache, log);
} catch (...) {
  rethrow_from("while the data was prepared",
               "split long documents and lines into shorter ones, or close other programs that use memory");
}

Prepared open_prepared(const Experiment& experiment, const fs::path& cache, int64_t world_size, bool weights) {
  const DataConfig& data = experiment.data;
  const TrainConfig& train = experiment.train;
  const int64_t vocab_size = experiment.model.vocab_size;
  Prepared result;
  if (data.kind == DataKind::random) {
    result.train = random_windows(experiment.seed, train.sequence_length, vocab_size);
  } else if (data.kind == DataKind::tokens) {
    return open_tokens(experiment, cache, world_size);
  } else {
    const bool records = data.kind == DataKind::records;
    result.folder = records ? records_folder(experiment, cache) : text_plan(experiment, cache).folder;
    result.identity = result.held_out_identity = result.folder.filename().string();
    const Json prepared =
        read_prepared_folder(result.folder, std::string("the ") + to_string(data.kind) + (records ? " are" : " is"));
    result.tokenizer = open_tokenizer(experiment, tokenizer_file_in(result.folder));
    if (records) {
      result.records = std::make_unique<Records>(result.folder, prepared["dtype"] == "uint32", vocab_size);
      result.prompt_template = prepared.value("template", data.prompt_template);
      result.answer_end = prepared.value("answer_end", int64_t{-1});
      if (weights) {
        result.weights_folder = weights_folder(record_plan(experiment, cache));
        read_prepared_folder(result.weights_folder, "the weights of the records are");
        result.records->open_weights(result.weights_folder);
      }
      return result;
    }
    result.train = open_part(experiment, result.folder, prepared, "train");
    if (prepared.contains("validation"))
      result.validation = open_part(experiment, result.folder, prepared, "validation");
    const int64_t sequences = result.train->count();
    check_fills_a_step(train, sequences, world_size,
                       "the training text has " + counted(sequences, "sequence") + " of " +
                           with_thousands(train.sequence_length) + " tokens",
                       "text");
  }
  return result;
}

}  // namespace wmtp
