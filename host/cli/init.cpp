// `init DATA [MODEL]`: looks at data, and at a model to begin with, and writes experiments on them that run as they are:
// a baseline, and what extends it: a reference, rho-1, and a control.
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
#include "data/tokens/token_id_file.hpp"
#include "experiment/toml/value_rule.hpp"
#include "huggingface/hf_config.hpp"
#include "io/durable_file.hpp"
#include "io/file_kind.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_init_sequence = 1024, min_init_sequence = 16, text_sequence = 256;
constexpr int64_t min_records_to_validate = 200;  // 1 in 20 is held out, by a hash: none of 200 once in 30,000 times
constexpr int64_t bytes_for_bpe = 1 << 20, bytes_of_template = 256;
constexpr double held_out = 0.1;
constexpr size_t max_names = 8, pointer_bytes = 1024;
constexpr int64_t ids_at_a_time = 1 << 18, vocab_multiple = 64;

struct Found {
  DataKind kind = DataKind::text;
  std::string format, text, remarks;                       ///< `text` describes the data
  std::vector<std::string> patterns, validation_patterns;  ///< of `files` and `validation`
  std::vector<fs::path> files, validation;
  int64_t bytes = 0, records = 0, longest = 0;  ///< `longest`: bytes of the longest record
  bool is_chat = false;
  // Of token ids:
  int64_t ids = 0, validation_ids = 0, largest_id = 0;
  fs::path tokenizer;  ///< beside them; empty: none
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

/// Whether a file is one of token ids, by its name.
bool has_token_ids(const fs::path& file) { return file.extension() == ".bin" || file.extension() == ".npy"; }

/// The pattern that differs from one of training files only in the name of the split, if a file matches it: val.bin for
/// train.bin, fineweb_val_*.bin for fineweb_train_*.bin.
std::optional<std::string> validation_beside(const fs::path& pattern) {
  const std::string name = pattern.filename().string(), split = "train";
  const size_t found = name.rfind(split);
  if (found == std::string::npos) return std::nullopt;
  for (const char* other : {"val", "valid", "validation"}) {
    const fs::path beside = pattern.parent_path() / std::string(name).replace(found, split.size(), other);
    try {
      if (!list_files({beside.string()}, {}).empty()) return beside.string();
    } catch (const Error&) {  // nothing has this name
    }
  }
  return std::nullopt;
}

/// Adds the number of ids of `files` to `count`, and raises the largest id.
void inspect_token_files(const std::vector<fs::path>& files, int64_t& count, int64_t& largest) {
  std::vector<int64_t> block;
  for (const fs::path& file : files) {
    const TokenIdFile ids(file, token_id_layout(file, ""), std::numeric_limits<int64_t>::max());
    for (int64_t first = 0; first < ids.count(); first += int64_t(block.size())) {
      block.resize(size_t(std::min(ids_at_a_time, ids.count() - first)));
      ids.read(first, int64_t(block.size()), block.data());
      largest = std::max(largest, *std::ranges::max_element(block));
    }
    count += ids.count();
  }
}

/// Token ids, and what lies beside them: a file for validation, a tokenizer.
void inspect_tokens(Found& found) {
  const fs::path folder = found.files[0].parent_path();
  if (found.validation.empty())
    if (const auto beside = validation_beside(found.patterns[0])) {
      found.validation_patterns = {*beside};
      found.validation = list_files(found.validation_patterns, {});
      found.remarks += "validates on " + relative_names(found.validation, folder) + "\n";
    }
  inspect_token_files(found.files, found.ids, found.largest_id);
  inspect_token_files(found.validation, found.validation_ids, found.largest_id);
  if (const fs::path file = tokenizer_file_in(folder); is_there(file)) found.tokenizer = file;
  if (found.tokenizer.empty())
    found.remarks += std::string("no tokenizer.json beside them: the model reads and writes ids, not text") +
                     (is_there(folder / "meta.pkl") ? "; meta.pkl is not read, because a pickle runs code" : "") + "\n";
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
  const bool are_ids = std::ranges::any_of(all, has_token_ids);
  std::partition_copy(all.begin(), all.end(), std::back_inserter(lines), std::back_inserter(others),
                      are_ids ? has_token_ids : has_json_lines);
  const bool are_chosen = !lines.empty();
  if (!are_chosen) std::swap(lines, others);
  DataSplits splits = find_data_splits(folder, lines, are_chosen);
  found.files = std::move(splits.train);
  found.validation = std::move(splits.validation);
  found.patterns = patterns_of(folder, found.files);
  if (!found.validation.empty()) found.validation_patterns = patterns_of(folder, found.validation);
  if (!others.empty())
    found.remarks += "left out " + relative_names(others, folder) + ", which contain no " +
                     (are_ids ? "token ids" : "JSON lines") + "\n";
  if (!splits.rest.empty()) found.remarks += "left out " + relative_names(splits.rest, folder) + ", another split\n";
  if (!found.validation.empty()) found.remarks += "validates on " + relative_names(found.validation, folder) + "\n";
}

Found inspect_path(const fs::path& data) {
  Found found;
  const fs::path place = absolute_path(data);
  check_is_utf8(place.string(), "init");  // it becomes part of TOML
  if (is_there(place / "dataset_dict.json") || is_there(place / "state.json"))
    throw Error(ExitStatus::data,
                data.string() + " is a data set that save_to_disk wrote; convert it first: wmtp-host " +
                    "data convert " + shell_path(data.string()) +
                    (is_there(place / "dataset_dict.json") ? " --split train" : "") + " -o train.jsonl");
  if (fs::is_directory(data)) {
    choose_files(place, found);
  } else {
    found.patterns = {place.string()};
    found.files = is_there(place) ? std::vector{place} : list_files(found.patterns, {});
  }
  const std::string files = found.files.size() == 1 ? "1 file" : relative_names(found.files, place);
  if (has_token_ids(found.files[0])) {
    found.kind = DataKind::tokens;
    inspect_tokens(found);
    found.text = counted(found.ids, "token id") + " in " + files;
    return found;
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
  found.text = found.kind == DataKind::records
                   ? counted(found.records, "record") + " (" + found.format + ") in " + files
                   : human_bytes(found.bytes) + " of text in " + files;
  return found;
}

/// The text of the experiments.
class Experiments {
 public:
  Experiments(const Found& found, const std::string& model)
      : found_(found), model_(model.empty() ? fs::path() : absolute_path(model)) {
    check_is_utf8(model_.string(), "init --model");
    if (found.kind == DataKind::tokens)
      choose_tokenizer_of_ids();
    else
      choose_tokenizer();
    if (found.kind == DataKind::records)
      size_for_records();
    else
      size_for_windows();
  }

  std::string text(const std::string& name) const {
    if (name == "baseline") return baseline();
    std::string text = about(name) + "extends = \"baseline.toml\"\nname = " + quoted(name) + "\n";
    if (name == "reference") return text + "\n[model]\n" + (has_model() ? "" : "layers = 4\n") + "future_tokens = 1\n";
    text += "\n[pipeline]\nplugin = " + quoted(name) + "\nkeep = 0.6\n";
    return text + (name == "rho1" ? "\n[reference]\nexperiment = \"reference.toml\"\n" : "");
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
    if (name == "baseline")
      return "# Multi-token prediction with equal token weights. The other experiments here extend this one.\n";
    if (name == "random") return "# The control for rho1.toml: a random 60% of the tokens.\n";
    if (name == "rho1")
      return "# rho-1 (arXiv 2404.07965): each head learns from the 60% of the tokens that are hard for it, but not "
             "for the\n"
             "# reference.\n";
    return "# The reference of rho1.toml. Here it learns from the same data; it is more useful if its data is "
           "cleaner:\n"
           "# change `files`, and name its tokenizer's files in all experiments.\n";
  }

  std::string baseline() const {
    return about("baseline") + "name = \"baseline\"\nseed = 42\n\n[pipeline]\nplugin = \"baseline\"\n" + model() +
           data() + "\n[train]\nsteps = 200\nbatch_size = " + std::to_string(batch_) +
           "\nsequence_length = " + std::to_string(sequence_) +
           "\n\n[optimizer]\nlr = " + (has_model() ? "2e-5" : "2e-3") +
           "\n\n[schedule]\nname = \"cosine\"\nwarmup_steps = 10\n\n[checkpoint]\nevery_steps = 100\n" + validation_;
  }

  std::string model() const {
    if (has_model())
      return "\n[model]\nweights = " + quoted(model_.string()) + "\nfuture_tokens = 4\nnew_heads = \"copy\"\n";
    return "\n[model]\ndim = 128\nlayers = 6              # trunk and heads together: the heads have one block each\n"
           "heads = 4\nfuture_tokens = 4\n" +
           vocab_size_;
  }

  std::string data() const {
    return "\n[data]\nkind = " + quoted(to_string(found_.kind)) + "\nfiles = " + toml_text(Value(found_.patterns)) +
           "\n" + records_ + (tokenizer_.empty() ? "" : "\n[data.tokenizer]\n" + tokenizer_);
  }

  /// That of the model, or the one beside the ids. A SentencePiece model's size is known to the engine only.
  void choose_tokenizer_of_ids() {
    if (has_model()) return choose_tokenizer();
    int64_t size = found_.largest_id + 1;
    if (const fs::path& file = found_.tokenizer; !file.empty()) {
      tokenizer_ = "kind = \"file\"\nfile = " + quoted(file.string()) + "\n";
      if (is_tokenizer_json(file)) size = std::max(size, json_tokenizer(file)->vocab_size());
    }
    vocab_size_ = "vocab_size = " + std::to_string(round_up(size, vocab_multiple)) + "       # the largest id is " +
                  std::to_string(found_.largest_id) + "\n";
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

  void size_for_windows() {
    const bool are_ids = found_.kind == DataKind::tokens;
    const int64_t held = are_ids ? found_.validation_ids
                         : has_validation()
                             ? document_bytes(whole_files(found_.validation))
                             : document_bytes(split_files(found_.files, {"", held_out, held_out}).validation);
    const int64_t trained = are_ids ? found_.ids : found_.bytes - (has_validation() ? 0 : held);
    const int64_t for_a_token = are_ids ? 1 : 2 * bytes_per_token_;  // at most
    const auto windows = [&](int64_t part) { return part / for_a_token / sequence_; };
    const bool must_hold = !are_ids || has_validation();
    sequence_ = text_sequence;
    while (sequence_ > min_init_sequence && (windows(trained) < batch_ || (must_hold && windows(held) < 1)))
      sequence_ /= 2;
    if (windows(trained) < batch_)
      throw Error(ExitStatus::data,
                  join_names(found_.patterns) + ": found " + found_.text + ", which is too little to train on");
    if (windows(held) < 1) return;
    validation_ = validation_table() + (has_validation() ? "" : "share = 0.1          # the end of each file\n");
  }

  const Found& found_;
  fs::path model_;
  std::string vocab_size_, tokenizer_, records_, validation_;
  int64_t bytes_per_token_ = 1, sequence_ = 0, batch_ = 4;
  bool has_template_ = false;
};

/// Error unless `model` is a folder of a model that can be trained.
void check_model(const std::string& model) {
  if (!fs::is_directory(model) && !model.starts_with('.') && !model.starts_with('/'))
    throw Error(ExitStatus::usage, "there is no folder " + printable(model) + "; nothing is downloaded: hf download " +
                                       shell_path(model) + " --local-dir " +
                                       shell_path(fs::path(model).filename().string()));
  if (!is_model(model))
    throw Error(ExitStatus::usage, model + " is no folder of a Hugging Face model: it contains no config.json");
  for (const fs::path& file : paths_in(model))
    if (fs::is_regular_file(file)) refuse_pointer(file, read_file_start(file, pointer_bytes));
  read_hf_config(model);
}

int init(const Options& options, const GlobalOptions&) {
  if (options.model.empty() && is_model(options.data))
    throw Error(ExitStatus::usage, options.data + " is a model, which needs data to train on: wmtp-host init DATA " +
                                       shell_path(options.data));
  if (!options.model.empty()) check_model(options.model);
  const std::vector<std::string> names{"baseline", "reference", "rho1", "random"};
  const auto file_of = [&](const std::string& name) { return fs::path(options.folder) / (name + ".toml"); };
  for (const std::string& name : names)
    if (is_there(file_of(name)))
      throw Error(ExitStatus::usage, file_of(name).string() + " already exists; choose another folder with -o");
  const Found found = inspect_path(options.data);
  const Experiments experiments(found, options.model);
  fs::create_directories(options.folder);
  for (const std::string& name : names) write_new_file(file_of(name), experiments.text(name));
  const auto shown = [&](const std::string& name) { return shell_path(file_of(name).string()); };
  std::cout << "found " << found.text << "\n"
            << found.remarks << "wrote " << file_of("baseline").string() << ", and " << file_of("reference").string()
            << ", " << file_of("rho1").string() << " and " << file_of("random").string() << ", which extend it\nnext:\n"
            << "  wmtp-host plan " << shown("rho1") << "      # parameters and memory before it runs\n"
            << "  wmtp-host run " << shown("baseline") << "\n"
            << "  wmtp-host run " << shown("rho1") << "       # trains the reference first\n"
            << "  wmtp-host run " << shown("random") << "     # the control\n"
            << "  wmtp-host runs compare rho1 random baseline\n";
  if (!options.model.empty()) std::cout << "with --set adapter.plugin=lora, only low-rank updates of the model train\n";
  return 0;
}

}  // namespace

void add_init(CommandLine& line) {
  auto [app, options] = line.add(
      "init",
      "write ready-to-run experiments for your data\n\n"
      "DATA is a file, a pattern or a folder of text, of token ids, or of JSON lines: texts, or records in one\n"
      "of the formats of data.format. MODEL is a Hugging Face folder to start from; without it, a small model\n"
      "is trained from the beginning. Writes baseline.toml, and reference.toml, rho1.toml and random.toml,\n"
      "which extend it.\n\n"
      "examples:\n"
      "  wmtp-host init novel.txt\n"
      "  wmtp-host init train.bin\n"
      "  wmtp-host init chats.jsonl Qwen2.5-0.5B-Instruct -o chats\n",
      init);
  add_option(app, "DATA", options.data, "file or folder to train on", required);
  add_option(app, "MODEL", options.model, "folder of a Hugging Face model");
  add_option(app, "-o,--output DIR", options.folder, "folder of the experiments", shows_default);
}

}  // namespace wmtp
