#include "data/torch/record_prepare.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/arithmetic/arithmetic.hpp"
#include "data/records/record_file.hpp"
#include "data/records/record_plan.hpp"
#include "data/records/records.hpp"
#include "data/tokens/corpus.hpp"
#include "data/torch/record_encoder.hpp"
#include "data/torch/token_writer.hpp"
#include "io/durable_file.hpp"
#include "io/prepared_folder.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/torch/tokenizers.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Log = std::function<void(const std::string&)>;

constexpr double tokenizer_text_bytes = 8 << 20;  // the limit of train_bpe

void make_arithmetic(const Experiment& experiment, RecordPlan& plan, const Log& log) {
  plan.files.train = {plan.arithmetic};
  if (fs::exists(plan.arithmetic)) return;
  log("making " + counted(experiment.data.arithmetic.problems, "problem") + " of arithmetic");
  fs::create_directories(plan.arithmetic.parent_path());
  write_arithmetic(experiment.data.arithmetic, plan.arithmetic);
}

/// Reads `files` and throws an error with all their mistakes.
void read_all(const std::vector<fs::path>& files, const RecordNeeds& needs,
              const std::function<void(const Record&)>& on_record, const char* what) {
  RecordMistakes mistakes;
  WorkProgress progress(what, total_bytes(files), WorkProgress::Unit::bytes);
  for (const auto& file : files)
    if (!mistakes.full()) for_each_record(file, needs, mistakes, on_record, &progress);
  mistakes.raise();
}

/// Whether an answer is nothing but white space: the model would learn to end at once.
bool is_answer_empty(const Record& record) {
  const auto is_empty = [](const std::string& text) { return text.find_first_not_of(" \t\r\n") == text.npos; };
  if (!record.messages.is_array()) return is_empty(record.output);
  return std::any_of(record.messages.begin() + std::ptrdiff_t(record.prompt_messages), record.messages.end(),
                     [&](const OrderedJson& one) {
                       return one["role"] == "assistant" && !one.contains("tool_calls") &&
                              is_empty(one["content"].get_ref<const std::string&>());
                     });
}

/// Writes the records' texts to one file; a random sample if there are more than train_bpe reads.
fs::path write_texts(const Experiment& experiment, const RecordPlan& plan, const fs::path& folder) {
  const double share = std::min(1.0, tokenizer_text_bytes / std::max(1.0, double(total_bytes(plan.files.train))));
  const fs::path file = folder / "texts.txt";
  DurableFile texts(file);
  uint64_t number = 0;
  const auto write_record = [&](const Record& record) {
    if (double(hash64(0, number++) >> 11) * 0x1p-53 >= share) return;
    const std::string& name = experiment.data.prompt_template;
    const bool is_prompt = name == "plain" || name == "alpaca" || (name.empty() && !record.has_whole_prompt);
    if (record.messages.is_null() && is_prompt)
      texts.write(format_prompt(record, name.empty() ? "alpaca" : name) + record.output + "\n");
    else
      for (const std::string& text : record_texts(record)) texts.write(text + "\n");
  };
  read_all(plan.files.train, plan.needs, write_record, "reading the records");
  texts.finish();
  return file;
}

/// What becomes of the records that remain.
using OnRecord = std::function<void(const Record&, EncodedRecord&, bool validation)>;

/// Reads and encodes the records, and leaves out those that are held out or too long.
class Encoding {
 public:
  Encoding(const Experiment& experiment, const RecordPlan& plan, const Tokenizer& tokenizer, OnRecord on_record)
      : experiment_(experiment),
        plan_(plan),
        encoder_(record_template(experiment), tokenizer),
        on_record_(std::move(on_record)) {}

  /// The counts of prepared.json.
  Json encode() {
    const auto hold = [&](const Record& record) {
      held_out_.emplace(record.identity, record.question);
      held_out_.emplace(record.question, record.question);  // for records that ask it without a task_id
      if (record.identity == record.question) unnamed_.insert(record.question);
    };
    read_all(plan_.files.hold_out, {.format = plan_.needs.format, .weights = true}, hold, "reading held-out records");
    const auto validate = [&](const Record& record) {
      hold(record);
      add(record, true);
    };
    read_all(plan_.files.validation, plan_.needs, validate, "encoding validation");
    const bool by_problem = validates_by_problem(experiment_);
    const bool hold_out = by_problem || experiment_.data.hold_out_problems;
    const auto train = [&](const Record& record) {
      const bool one_in_twenty = hold_out && is_held_out(record);
      const auto same = held_out_.find(record.identity);
      other_questions_ += same != held_out_.end() && same->second != record.question ? 1 : 0;
      if (same != held_out_.end() || unnamed_.contains(record.question) || (one_in_twenty && !by_problem))
        ++counts_.held_out;
      else
        add(record, one_in_twenty);
    };
    read_all(plan_.files.train, plan_.needs, train, "encoding train");
    if (other_questions_ > 0)
      log_warning("left out of data.files: " + counted(other_questions_, "record") +
                  " whose task_id is that of a held-out record, which asks something else; give each problem a task_id "
                  "of its own");
    const std::string prompt_template = templates_.size() == 1 ? *templates_.begin() : "";
    Json prepared{{"train", counts_.train},
                  {"validation", counts_.validation},
                  {"too_long", counts_.too_long},
                  {"truncated", counts_.truncated},
                  {"held_out", counts_.held_out},
                  {"longest", counts_.longest},
                  {"empty", counts_.empty},
                  {"weighted", counts_.weighted},
                  {"weighs_messages", counts_.weighs_messages},
                  {"left_out", encoder_.left_out().chats},
                  {"first_left_out", encoder_.left_out().first},
                  {"template", prompt_template}};
    if (const auto end = encoder_.answer_end(prompt_template)) prepared["answer_end"] = *end;
    return prepared;
  }

 private:
  struct Counts {
    int64_t train = 0, validation = 0, too_long = 0, truncated = 0, held_out = 0, longest = 0, empty = 0, weighted = 0,
            weighs_messages = 0;
  };

  void add(const Record& record, bool validation) {
    EncodedRecord encoded = encoder_.encode(record);
    counts_.empty += is_answer_empty(record) ? 1 : 0;
    templates_.insert(encoder_.template_of(record));
    counts_.longest = std::max(counts_.longest, int64_t(encoded.ids.size()));
    if (!shorten(encoded)) {
      ++counts_.too_long;
      return;
    }
    ++(validation ? counts_.validation : counts_.train);
    counts_.weighted += record.has_weights ? 1 : 0;
    counts_.weighs_messages += record.weighs_messages ? 1 : 0;
    on_record_(record, encoded, validation);
  }

  /// Truncates a record that is too long; false if it is to be excluded.
  bool shorten(EncodedRecord& encoded) {
    const int64_t limit = experiment_.train.sequence_length;
    if (int64_t(encoded.ids.size()) <= limit) return true;
    if (experiment_.data.too_long == TooLong::exclude || encoded.turns[0] >= limit) return false;
    encoded.ids.resize(size_t(limit));
    if (!encoded.weights.empty()) encoded.weights.resize(size_t(limit));
    while (encoded.turns.back() >= limit) encoded.turns.pop_back();
    ++counts_.truncated;
    return true;
  }

  const Experiment& experiment_;
  const RecordPlan& plan_;
  RecordEncoder encoder_;
  OnRecord on_record_;
  std::map<int64_t, int64_t> held_out_;  ///< the question of each identity, and of each question
  std::set<int64_t> unnamed_;            ///< questions of held-out records without a task_id
  int64_t other_questions_ = 0;          ///< records that share a held-out record's task_id, but not its question
  std::set<std::string> templates_;
  Counts counts_;
};

/// The files of Records.
class RecordWriter {
 public:
  RecordWriter(const Tokenizer& tokenizer, const fs::path& folder)
      : ids_(folder / Records::ids_name, tokenizer),
        index_(folder / Records::index_name),
        turns_(folder / Records::turns_name) {}

  void add(const Record& record, EncodedRecord& encoded, bool validation) {
    RecordEntry entry;
    entry.offset = ids_.num_ids();
    entry.problem = problem_of(record);
    entry.length = int32_t(encoded.ids.size());
    entry.prompt = encoded.turns[0];
    entry.difficulty = int32_t(record.difficulty.value_or(-1));
    entry.correct = record.correct ? int8_t(*record.correct) : int8_t{-1};
    entry.held_out = validation;
    if (encoded.turns.size() > 1) {
      entry.turns = num_turns_;
      encoded.turns.push_back(entry.length);
      const auto further = std::span(encoded.turns).subspan(1);
      turns_.write({reinterpret_cast<const char*>(further.data()), further.size_bytes()});
      num_turns_ += int64_t(further.size());
    }
    ids_.add(encoded.ids);
    index_.write({reinterpret_cast<const char*>(&entry), sizeof entry});
  }

  /// Answers to different questions are not answers to one problem, even if they share a task_id.
  int64_t problem_of(const Record& record) {
    if (record.problem < 0) return -1;
    const auto [first, is_new] = questions_.try_emplace(record.problem, record.question);
    if (first->second == record.question) return record.problem;
    return int64_t(hash64(uint64_t(record.problem), uint64_t(record.question)) >> 4);
  }

  /// The number of ids.
  int64_t finish() {
    ids_.finish();
    index_.finish();
    turns_.finish();
    return ids_.num_ids();
  }

 private:
  TokenWriter ids_;
  DurableFile index_, turns_;
  int64_t num_turns_ = 0;
  std::unordered_map<int64_t, int64_t> questions_;  ///< the first of each problem
};

void build(const Experiment& experiment, const RecordPlan& plan, const Log& log) {
  FolderDraft draft(plan.folder);
  const TokenizerConfig& config = experiment.data.tokenizer;
  fs::path texts;
  const auto text = [&] {
    if (!config.files.empty()) return whole_files(tokenizer_files(experiment, {}));
    texts = write_texts(experiment, plan, draft.path());
    return whole_files({texts});
  };
  const auto tokenizer = prepare_tokenizer(experiment, plan.tokenizer, draft.path(), text, log);
  if (!texts.empty()) fs::remove(texts);
  log("encoding the records of " + counted(int64_t(plan.files.train.size()), "file") + " (" +
      human_bytes(total_bytes(plan.files.train)) + ")");
  RecordWriter writer(*tokenizer, draft.path());
  Json prepared =
      Encoding(experiment, plan, *tokenizer, [&](const Record& record, EncodedRecord& encoded, bool validation) {
        writer.add(record, encoded, validation);
      }).encode();
  prepared["tokens"] = writer.finish();
  prepared["format"] = records_format;
  prepared["tokenizer"] = to_string(config.kind);
  prepared["vocab_size"] = tokenizer->vocab_size();
  prepared["dtype"] = id_dtype(tokenizer->vocab_size());
  publish_prepared(draft, std::move(prepared));
}

void build_weights(const Experiment& experiment, const RecordPlan& plan, const fs::path& folder, const Log& log) {
  FolderDraft draft(folder);
  const auto tokenizer = open_tokenizer(experiment, tokenizer_file_in(plan.folder));
  log("reading the weights of the records");
  DurableFile file(draft.path() / Records::weights_name);
  const Json counts = Encoding(experiment, plan, *tokenizer, [&](const Record&, const EncodedRecord& encoded, bool) {
                        const std::span<const float> weights(encoded.weights);
                        file.write({reinterpret_cast<const char*>(weights.data()), weights.size_bytes()});
                      }).encode();
  file.finish();
  publish_prepared(draft, {{"format", records_format}, {"weighted", counts["weighted"]}});
}

void check_and_log_counts(const Experiment& experiment, const Json& prepared, const Log& log) {
  const auto count = [&](const char* name) { return with_thousands(prepared[name].get<int64_t>()); };
  const auto number = [&](const char* name) { return prepared[name].get<int64_t>(); };
  const std::string length = std::to_string(experiment.train.sequence_length);
  const std::string longest = "longest: " + counted(number("longest"), "token");
  std::string counts = counted(number("train"), "record") + " to train on, " + count("validation") + " for validation";
  if (number("truncated") > 0) counts += "; " + count("truncated") + " truncated to " + length + " (" + longest + ")";
  if (number("too_long") > 0 || number("held_out") > 0)
    counts += "; excluded: " + count("too_long") + " longer than train.sequence_length " + length + " (" + longest +
              "), " + count("held_out") + " of held-out problems";
  log(counts);
  const int64_t all = number("train") + number("validation") + number("too_long");
  if (number("too_long") * 10 > all)
    log("warning: " + printed("%.0f%%", 100 * double(number("too_long")) / double(all)) +
        " of the records are excluded because they are longer than train.sequence_length; raise it" +
        (experiment.data.too_long == TooLong::exclude ? ", or set data.too_long = \"truncate\"" : ""));
  if (const int64_t empty = prepared.value("empty", int64_t{0}); empty > 0)
    log("warning: " + counted(empty, "record") + (empty == 1 ? " has" : " have") +
        " an empty answer, from which the model learns to end at once; remove them unless this is meant");
  if (const int64_t chats = prepared.value("left_out", int64_t{0}); chats > 0)
    log("warning: the chat template leaves something out of " + counted(chats, "record") + ", in the first " +
        prepared["first_left_out"].get<std::string>() +
        ", so that it is not learned; use a template that writes it, or remove it from the records");
  if (const int64_t weighted = prepared.value("weighted", int64_t{0}); weighted > 0)
    log(counted(weighted, "record") + (weighted == 1 ? " has" : " have") +
        " weights, which pipelines that read data.weight use");
  if (prepared["train"] == 0) throw Error(ExitStatus::data, "no records remain to train on: " + counts);
  if (prepared["validation"] == 0 && experiment.validation.given)
    throw Error(ExitStatus::data,
                "no records remain for validation: " + counts +
                    "; one problem in twenty is held out, by its task_id: set validation.files to JSONL files, or "
                    "remove [validation]");
}

void prepare_weights(const Experiment& experiment, const RecordPlan& plan, const Log& log) {
  const fs::path folder = weights_folder(plan);
  if (!read_prepared(folder)) build_weights(experiment, plan, folder, log);
  const auto prepared = read_prepared(folder);
  if (!prepared) throw Error(ExitStatus::data, folder.string() + " was removed while the weights were prepared");
  if ((*prepared)["weighted"] == 0)
    throw Error(ExitStatus::data,
                "the pipeline reads data.weight, but no record has a \"weight\" or \"weights\": add them to the "
                "records, or choose another pipeline");
}

}  // namespace

void prepare_records(const Experiment& experiment, const fs::path& cache, const Log& log, bool weights) {
  RecordPlan plan = record_plan(experiment, cache);
  for (const std::string& warning : file_warnings(plan.files)) log("warning: " + warning);
  plan.needs.weights = weights;
  const auto found = read_prepared(plan.folder);
  // Weights of messages are refused where they are not read, also if a pipeline that reads them has prepared the rest.
  if (!found || (!weights && found->value("weighs_messages", int64_t{0}) > 0)) {
    if (!plan.arithmetic.empty()) make_arithmetic(experiment, plan, log);
    build(experiment, plan, log);
  }
  const auto prepared = read_prepared(plan.folder);
  if (!prepared) throw Error(ExitStatus::data, plan.folder.string() + " was removed while the records were prepared");
  check_and_log_counts(experiment, *prepared, log);
  if (weights) prepare_weights(experiment, plan, log);
}

}  // namespace wmtp
