// `init DATA [MODEL]`: looks at data, and at a model to begin with, and writes three experiments on them that run as
// they are: a baseline, a reference, and rho-1.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "base/round_up.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/command.hpp"
#include "data/records/record_file.hpp"
#include "data/records/record_format.hpp"
#include "data/text/documents.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/text_check.hpp"
#include "data/tokens/data_splits.hpp"
#include "data/tokens/file_patterns.hpp"
#include "experiment/toml/value_rule.hpp"
#include "io/durable_file.hpp"
#include "io/file_kind.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_init_sequence = 1024, min_init_sequence = 16, text_sequence = 256;
constexpr int64_t min_records_to_validate = 200;  // 1 in 20 is held out, by a hash: none of 200 once in 30,000 times
constexpr int64_t bytes_for_bpe = 1 << 20, bytes_of_template = 256;
constexpr double held_out = 0.1;
constexpr size_t max_names = 8, pointer_bytes = 1024;

struct Found {
  DataKind kind = DataKind::text;
  std::string format, text, remarks;                       ///< `text` describes the data
  std::vector<std::string> patterns, validation_patterns;  ///< of `files` and `validation`
  std::vector<fs::path> files, validation;
  int64_t bytes = 0, records = 0, longest = 0;  ///< `longest`: bytes of the longest record
  bool is_chat = false;
};

struct Options {
  std::string data, model, folder = ".";
};

/// "3 files", with their names if they are few.
std::string relative_names(const std::vector<fs::path>& files, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(printable(file.lexically_relative(folder).string()));
  const std::string count = counted(int64_t(files.size()), "file");
  return files.size() > max_names ? count : count + " (" + join_names(names) + ")";
}

bool is_model(const fs::path& path) { return fs::is_directory(path) && is_there(path / "config.json"); }

/// JSON lines with a field text are text, others records.
bool has_records(const fs::path& file) {
  if (!has_json_lines(file)) return false;
  LineStream lines(file, max_jsonl_line_bytes);
  while (lines.next() && is_blank(lines.line())) {
  }
  const auto first = parse_object(lines.line(), [](const std::string& field) { return field == "text"; });
  const auto* object = std::get_if<Json>(&first);
  return object && !object->contains("text");
}

void inspect_record_files(Found& found) {
  RecordMistakes mistakes;
  for (const fs::path& file : found.files)
    for_each_record(file, {}, mistakes, [&](const Record& record) {
      ++found.records;
      found.is_chat = found.is_chat || record.messages.is_array();
      int64_t bytes = bytes_of_template;
      for (const std::string& text : record_texts(record)) bytes += int64_t(text.size()) + 32;
      found.longest = std::max(found.longest, bytes);
    });
  mistakes.raise();
  found.format = recognised_format(found.files[0]);
}

/// What selects `files` below `folder`: one pattern if possible.
std::vector<std::string> patterns_of(const fs::path& folder, const std::vector<fs::path>& files) {
  const fs::path parent = files[0].parent_path();
  std::vector<fs::path> patterns{folder / "**", folder / "**" / ("*" + files[0].extension().string()), parent / "**"};
  if (files.size() > 1) {
    std::string start = files[0].filename().string();
    for (const fs::path& file : files) {
      const std::string name = file.filename().string();
      start.erase(std::mismatch(start.begin(), start.end(), name.begin(), name.end()).first, start.end());
    }
    patterns.push_back(parent / (start + "*"));
  }
  for (const fs::path& pattern : patterns)
    if (list_files({pattern.string()}, {}) == files) return {pattern.string()};
  return {files.begin(), files.end()};
}

/// Of a folder with JSON lines and other files, such as a README, only the JSON lines; of a data set only the splits
/// for training and validation.
void choose_files(const fs::path& folder, Found& found) {
  std::vector<fs::path> all = list_files({(folder / "**").string()}, {}), lines, others;
  std::partition_copy(all.begin(), all.end(), std::back_inserter(lines), std::back_inserter(others), has_json_lines);
  const bool are_json_lines = !lines.empty();
  if (!are_json_lines) std::swap(lines, others);
  DataSplits splits = find_data_splits(folder, lines, are_json_lines);
  found.files = std::move(splits.train);
  found.validation = std::move(splits.validation);
  found.patterns = patterns_of(folder, found.files);
  if (!found.validation.empty()) found.validation_patterns = patterns_of(folder, found.validation);
  if (!others.empty())
    found.remarks += "left out " + relative_names(others, folder) + ", which contain no JSON lines\n";
  if (!splits.rest.empty()) found.remarks += "left out " + relative_names(splits.rest, folder) + ", another split\n";
  if (!found.validation.empty()) found.remarks += "validates on " + relative_names(found.validation, folder) + "\n";
}

Found inspect_path(const fs::path& data) {
  Found found;
  const fs::path place = absolute_path(data);
  check_is_utf8(place.string(), "init");  // it becomes part of TOML
  if (fs::is_directory(data)) {
    choose_files(place, found);
  } else {
    found.files = {place};
    found.patterns = {place.string()};
  }
  for (const auto* files : {&found.files, &found.validation})
    for (const fs::path& file : *files) check_file_kind(file, FileUse::text);
  found.kind = has_records(found.files[0]) ? DataKind::records : DataKind::text;
  if (found.kind == DataKind::records) {
    inspect_record_files(found);
  } else {
    check_text_files(found.files);
    found.bytes = document_bytes(whole_files(found.files));
  }
  const std::string files = found.files.size() == 1 ? "1 file" : relative_names(found.files, place);
  found.text = found.kind == DataKind::records
                   ? counted(found.records, "record") + " (" + found.format + ") in " + files
                   : human_bytes(found.bytes) + " of text in " + files;
  return found;
}

/// The text of the three experiments.
class Experiments {
 public:
  Experiments(const Found& found, const std::string& model)
      : found_(found), model_(model.empty() ? fs::path() : absolute_path(model)) {
    check_is_utf8(model_.string(), "init --model");
    choose_tokenizer();
    if (found.kind == DataKind::records)
      size_for_records();
    else
      size_for_text();
  }

  std::string text(const std::string& name) const {
    const bool is_reference = name == "reference";
    std::string text = about(name) + "name = " + quoted(name) +
                       "\nseed = 42\n\n[pipeline]\nplugin = " + quoted(name == "rho1" ? "rho1" : "baseline") +
                       (name == "rho1" ? "\nkeep = 0.6" : "") + "\n";
    text += model(is_reference) + data();
    if (name == "rho1") text += "\n[reference]\nexperiment = \"reference.toml\"\n";
    text += "\n[train]\nsteps = 200\nbatch_size = " + std::to_string(batch_) +
            "\nsequence_length = " + std::to_string(sequence_) +
            "\n\n[optimizer]\nlr = " + (has_model() ? "2e-5" : "2e-3") +
            "\n\n[schedule]\nname = \"cosine\"\nwarmup_steps = 20\n\n[checkpoint]\nevery_steps = 100\n";
    return text + validation_;
  }

 private:
  bool has_model() const { return !model_.empty(); }
  bool has_validation() const { return !found_.validation.empty(); }

  std::string validation_table() const {
    return "\n[validation]\nevery_steps = 50\nbatches = 16\n" +
           (has_validation() ? "files = " + toml_text(Value(found_.validation_patterns)) + "\n" : "");
  }
  static std::string quoted(const std::string& text) { return toml_text(Value(text)); }

  std::string about(const std::string& name) const {
    if (name == "baseline") return "# Multi-token prediction with equal token weights, to compare rho1.toml with.\n";
    if (name == "rho1")
      return "# rho-1 (arXiv 2404.07965): each head learns from the 60% of the tokens that are hard for it, but not "
             "for the\n"
             "# reference.\n";
    return "# The reference of rho1.toml. Here it learns from the same data; it is more useful if its data is "
           "cleaner:\n"
           "# change `files`, and name its tokenizer's files in all experiments.\n";
  }

  std::string model(bool is_reference) const {
    if (!has_model())
      return std::string("\n[model]\ndim = 128\nlayers = ") + (is_reference ? "4" : "6") +
             "\nheads = 4\nfuture_tokens = " + (is_reference ? "1" : "4") + "\n";
    return "\n[model]\nweights = " + quoted(model_.string()) +
           (is_reference ? "\nfuture_tokens = 1\n" : "\nfuture_tokens = 4\nnew_heads = \"copy\"\n");
  }

  std::string data() const {
    return "\n[data]\nkind = " + quoted(to_string(found_.kind)) + "\nfiles = " + toml_text(Value(found_.patterns)) +
           "\n" + records_ + "\n[data.tokenizer]\n" + tokenizer_;
  }

  void choose_tokenizer() {
    if (has_model()) {
      const fs::path file = tokenizer_file_in(model_);
      if (!is_there(file))
        throw Error(ExitStatus::data, model_.string() + " contains no tokenizer.json and no tokenizer.model");
      tokenizer_ = "kind = \"file\"\nfile = " + quoted(file.string()) + "\n";
      bytes_per_token_ = 3;
      has_template_ = is_tokenizer_json(file) && read_chat_template(file);
    } else if (found_.kind == DataKind::text && found_.bytes >= bytes_for_bpe) {
      tokenizer_ = "kind = \"bpe\"\nvocab_size = 4096\n";
      bytes_per_token_ = 4;
    } else {
      tokenizer_ = "kind = \"byte\"      # with more data: \"bpe\" and a vocab_size\n";
    }
  }

  void size_for_records() {
    if (found_.is_chat && !has_template_) records_ += "template = \"chatml\"\n";
    records_ += "too_long = \"truncate\"\n";
    const int64_t wanted = round_up(found_.longest / bytes_per_token_ + 1, 64);
    sequence_ = std::min(max_init_sequence, wanted);
    batch_ = std::min<int64_t>(4, found_.records);
    if (has_validation() || found_.records >= min_records_to_validate) validation_ = validation_table();
  }

  void size_for_text() {
    const int64_t held = has_validation()
                             ? document_bytes(whole_files(found_.validation))
                             : document_bytes(split_files(found_.files, {"", held_out, held_out}).validation);
    const int64_t trained = found_.bytes - (has_validation() ? 0 : held);
    const auto windows = [&](int64_t bytes) { return bytes / bytes_per_token_ / 2 / sequence_; };  // at least
    sequence_ = text_sequence;
    while (sequence_ > min_init_sequence && (windows(trained) < batch_ || windows(held) < 1)) sequence_ /= 2;
    if (windows(trained) < batch_)
      throw Error(ExitStatus::data, join_names(found_.patterns) + ": found " + human_bytes(found_.bytes) +
                                        " of text, which is too little to train on");
    if (windows(held) < 1) return;
    validation_ = validation_table() + (has_validation() ? "" : "share = 0.1          # the end of each file\n");
  }

  const Found& found_;
  fs::path model_;
  std::string tokenizer_, records_, validation_;
  int64_t bytes_per_token_ = 1, sequence_ = 0, batch_ = 4;
  bool has_template_ = false;
};

int init(const Options& options, const GlobalOptions&) {
  if (options.model.empty() && is_model(options.data))
    throw Error(ExitStatus::usage, options.data + " is a model, which needs data to train on: wmtp-host init DATA " +
                                       shell_path(options.data));
  if (!options.model.empty() && !is_model(options.model))
    throw Error(ExitStatus::usage, options.model + " is no folder of a Hugging Face model: it contains no config.json");
  if (!options.model.empty())
    for (const fs::path& file : paths_in(options.model))
      if (fs::is_regular_file(file)) refuse_pointer(file, read_file_start(file, pointer_bytes));
  const std::vector<std::string> names{"baseline", "reference", "rho1"};
  const auto file_of = [&](const std::string& name) { return fs::path(options.folder) / (name + ".toml"); };
  for (const std::string& name : names)
    if (is_there(file_of(name)))
      throw Error(ExitStatus::usage, file_of(name).string() + " already exists; choose another folder with -o");
  const Found found = inspect_path(options.data);
  const Experiments experiments(found, options.model);
  fs::create_directories(options.folder);
  for (const std::string& name : names) write_new_file(file_of(name), experiments.text(name));
  std::cout << "found " << found.text << "\n"
            << found.remarks << "wrote " << file_of("baseline").string() << ", " << file_of("reference").string()
            << " and " << file_of("rho1").string() << "\nnext:\n"
            << "  wmtp-host plan " << shell_path(file_of("rho1").string()) << "      # memory and time before it runs\n"
            << "  wmtp-host run " << shell_path(file_of("baseline").string()) << "\n"
            << "  wmtp-host run " << shell_path(file_of("rho1").string()) << "       # trains the reference first\n"
            << "  wmtp-host runs compare rho1 baseline\n";
  return 0;
}

}  // namespace

void add_init(CommandLine& line) {
  auto [app, options] =
      line.add("init",
               "write ready-to-run experiments for your data\n\n"
               "DATA is a file or folder of text, or of JSON lines: texts, or records in one of the formats of\n"
               "data.format. MODEL is a Hugging Face folder to start from; without it, a small model is trained\n"
               "from the beginning. Writes baseline.toml, reference.toml and rho1.toml.\n\n"
               "examples:\n"
               "  wmtp-host init novel.txt\n"
               "  wmtp-host init chats.jsonl Qwen2.5-0.5B-Instruct -o chats\n",
               init);
  add_option(app, "DATA", options.data, "file or folder to train on", required);
  add_option(app, "MODEL", options.model, "folder of a Hugging Face model");
  add_option(app, "-o,--output DIR", options.folder, "folder of the experiments", shows_default);
}

}  // namespace wmtp
