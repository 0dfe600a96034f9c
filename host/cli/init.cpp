// `init DATA [MODEL]`: looks at data, and at a model to begin with, and writes experiments on them that run as they
// are: a baseline, and three that extend it: a reference, rho-1, and a random control of rho-1.
#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/normal_path.hpp"
#include "base/round_up.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/command.hpp"
#include "data/records/import_records.hpp"
#include "data/records/record_file.hpp"
#include "data/records/record_format.hpp"
#include "data/text/documents.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/text_check.hpp"
#include "data/tokens/data_splits.hpp"
#include "data/tokens/file_patterns.hpp"
#include "data/tokens/token_id_file.hpp"
#include "data/tokens/token_id_layout.hpp"
#include "experiment/toml/value_rule.hpp"
#include "huggingface/hf_config.hpp"
#include "io/durable_file.hpp"
#include "io/file_kind.hpp"
#include "io/shard_names.hpp"
#include "model/model_limits.hpp"
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
constexpr int64_t steps = 200, warmup_steps = 10;  // few enough for `--set train.steps=20`
constexpr int64_t ids_to_scan = int64_t{1} << 28;  // of all files together: some seconds
constexpr int64_t ids_to_try = 1 << 14;
constexpr int64_t vocab_multiple = 64;  // nanoGPT and llm.c make 50,304 of GPT-2's 50,257
constexpr std::array names{"baseline", "reference", "rho1", "random"};

struct Found {
  DataKind kind = DataKind::text;
  std::string format, text, remarks;                       ///< `text` describes the data
  std::vector<std::string> patterns, validation_patterns;  ///< of `files` and `validation`
  std::vector<fs::path> files, validation;
  int64_t bytes = 0, records = 0, longest = 0;  ///< `longest`: bytes of the longest record
  bool is_chat = false, has_wrong = false;
  std::vector<TokenIdLayout> ids, validation_ids;  ///< of token files
  int64_t largest_id = 0;
  fs::path tokenizer;  ///< beside token files
};

struct Options {
  std::string data, model, folder = ".";
  bool lora = false;
};

/// "3 files", with their names if they are few.
std::string relative_names(const std::vector<fs::path>& files, const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(printable(file.lexically_relative(folder).string()));
  const std::string count = counted(int64_t(files.size()), "file");
  return files.size() > max_names ? count : count + " (" + join_names(names) + ")";
}

bool is_model(const fs::path& path) { return fs::is_directory(path) && is_there(path / "config.json"); }

/// JSON lines with a field text are text, unless they have the fields of records, or of a data set to convert.
bool has_records(const fs::path& file) {
  if (!has_json_lines(file)) return false;
  LineStream lines(file, max_jsonl_line_bytes);
  while (lines.next() && is_blank(lines.line())) {
  }
  const auto first = parse_object(lines.line(), [](const std::string&) { return true; });
  const auto* object = std::get_if<Json>(&first);
  return object && (!object->contains("text") || fits_record_format(*object) || !detect_import_source(*object).empty());
}

void inspect_record_files(Found& found) {
  RecordMistakes mistakes;
  for (const fs::path& file : found.files)
    for_each_record(file, {}, mistakes, [&](const Record& record) {
      ++found.records;
      found.is_chat = found.is_chat || record.messages.is_array();
      found.has_wrong = found.has_wrong || record.correct == false;
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

bool has_name_of_ids(const fs::path& file) { return file.extension() == ".bin" || file.extension() == ".npy"; }

/// One of the files that save_pretrained() of a tokenizer writes.
bool is_of_tokenizer(const fs::path& file) {
  constexpr std::array tokenizer_files{"tokenizer.json", tokenizer_config_name, "special_tokens_map.json",
                                       "added_tokens.json", "vocab.json"};
  return std::ranges::find(tokenizer_files, file.filename().string()) != tokenizer_files.end();
}

bool is_training_ids(const fs::path& file) {
  return has_name_of_ids(file) && file.filename().string().find("train") != std::string::npos;
}

/// Whether it lies below `folder` beside a run log, as checkpoints do, or in the folder of a model.
bool is_of_runs(const fs::path& file, const fs::path& folder) {
  for (fs::path at = file.parent_path(); at != folder && at.has_relative_path(); at = at.parent_path())
    if (is_there(at / "wmtp.db") || is_model(at)) return true;
  return false;
}

/// Of a folder with JSON lines and other files, such as a README, only the JSON lines; beside a train.bin, only token
/// files, whose tokenizer is no data; of a data set only the splits for training and validation. Nothing of runs.
void choose_files(const fs::path& folder, Found& found) {
  std::vector<fs::path> all = list_files({(folder / "**").string()}, {});
  const auto of_runs = std::erase_if(all, [&](const fs::path& file) { return is_of_runs(file, folder); });
  if (of_runs > 0) found.remarks += "left out " + counted(int64_t(of_runs), "file") + " of runs and models\n";
  if (all.empty())
    throw Error(ExitStatus::data, folder.string() + ": found only files of runs and models, wanted a folder with data");
  const bool has_ids = std::ranges::any_of(all, is_training_ids);
  if (has_ids) std::erase_if(all, [](const fs::path& file) { return is_of_tokenizer(file); });
  std::vector<fs::path> chosen, others;
  const auto choose = [&](auto is_chosen) {
    chosen.clear(), others.clear();
    std::partition_copy(all.begin(), all.end(), std::back_inserter(chosen), std::back_inserter(others), is_chosen);
    return !chosen.empty();
  };
  const bool are_json_lines = choose(has_json_lines);
  const bool are_ids = !are_json_lines && has_ids && choose(has_name_of_ids);
  if (!are_json_lines && !are_ids) std::swap(chosen, others);
  DataSplits splits = find_data_splits(folder, chosen, are_json_lines);
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

/// Of raw ids of uint32, if the first of them can be such.
std::optional<TokenIdLayout> wide_layout(const fs::path& file) try {
  const TokenIdLayout layout = token_id_layout(file, "uint32");
  std::vector<int64_t> ids(size_t(std::min(layout.count, ids_to_try)));
  TokenIdFile(file, layout, max_vocabulary).read(0, int64_t(ids.size()), ids.data());
  return layout;
} catch (const Error&) {
  return std::nullopt;
}

/// Also of raw ids wider than uint16, which token_id_layout does not guess.
TokenIdLayout layout_of_ids(const fs::path& file) {
  try {
    return token_id_layout(file, "");
  } catch (const Error&) {
    if (file.extension() == ".npy" || has_megatron_index(file)) throw;
    if (const auto wide = wide_layout(file)) return *wide;
    throw;
  }
}

/// The files beside `train` that are named as it is, with "val" instead of "train": val.bin, fineweb_val_000000.bin.
std::vector<fs::path> validation_beside(const fs::path& train) {
  const std::string name = train.filename().string();
  const size_t word = name.find("train");
  if (word == std::string::npos) return {};
  std::vector<fs::path> found;
  for (const fs::path& file : paths_in(train.parent_path()))
    if (file.extension() == train.extension() && file.filename().string().starts_with(name.substr(0, word) + "val"))
      found.push_back(file);
  std::ranges::sort(found);
  return found;
}

void inspect_ids(Found& found) {
  const fs::path folder = found.files[0].parent_path();
  if (found.validation.empty()) {
    found.validation = validation_beside(found.files[0]);
    found.validation_patterns = {found.validation.begin(), found.validation.end()};
    if (!found.validation.empty()) found.remarks += "validates on " + relative_names(found.validation, folder) + "\n";
  }
  int64_t left = ids_to_scan, total = 0;
  std::vector<int64_t> block(1 << 16);
  const auto inspect = [&](const fs::path& file, std::vector<TokenIdLayout>& layouts) {
    const TokenIdLayout layout = layouts.emplace_back(layout_of_ids(file));
    const TokenIdFile ids(file, layout, std::numeric_limits<int64_t>::max());
    const int64_t scanned = std::min(left, layout.count);
    for (int64_t first = 0, count; first < scanned; first += count, left -= count) {
      count = std::min(int64_t(block.size()), scanned - first);
      ids.read(first, count, block.data());
      found.largest_id = std::max(found.largest_id, *std::max_element(block.begin(), block.begin() + count));
    }
  };
  for (const fs::path& file : found.files) inspect(file, found.ids);
  for (const TokenIdLayout& layout : found.ids) total += layout.count;
  for (const fs::path& file : found.validation) inspect(file, found.validation_ids);
  const fs::path tokenizer = tokenizer_file_in(folder);
  if (is_there(tokenizer)) found.tokenizer = tokenizer;
  if (is_there(folder / "meta.pkl") && found.tokenizer.empty())
    found.remarks +=
        "meta.pkl is not read: loading a pickle can run any program; so ids are not shown as text. If the text is "
        "there, "
        "train on it: wmtp-host init input.txt\n";
  found.text = with_thousands(total) + " token ids (" + found.ids[0].type + ", the largest found is " +
               with_thousands(found.largest_id) + ") in " + relative_names(found.files, folder);
}

[[noreturn]] void refuse_saved_data_set(const fs::path& folder, bool has_splits) {
  throw Error(ExitStatus::data, folder.string() +
                                    " is a data set that save_to_disk of Hugging Face wrote; convert it "
                                    "first: wmtp-host data convert " +
                                    shell_path(folder.string()) + (has_splits ? " --split train" : "") +
                                    " --to train.jsonl");
}

void find_files(const fs::path& data, const fs::path& place, Found& found) {
  if (fs::is_directory(data)) {
    if (is_there(place / "dataset_dict.json")) refuse_saved_data_set(data, true);
    if (is_there(place / "state.json") && is_there(place / "dataset_info.json")) refuse_saved_data_set(data, false);
    choose_files(place, found);
    return;
  }
  const bool is_pattern = !is_there(place) && data.string().find_first_of("*?") != std::string::npos;
  found.files = is_pattern ? list_files({place.string()}, {}) : std::vector<fs::path>{place};
  found.patterns = {place.string()};
}

Found inspect_path(const fs::path& data) {
  Found found;
  const fs::path place = absolute_path(data);
  check_is_utf8(place.string(), "init");  // it becomes part of TOML
  find_files(data, place, found);
  if (std::ranges::all_of(found.files, has_name_of_ids)) {
    found.kind = DataKind::tokens;
    inspect_ids(found);
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
  const std::string files = found.files.size() == 1 ? "1 file" : relative_names(found.files, place);
  found.text = found.kind == DataKind::records
                   ? counted(found.records, "record") + " (" + found.format + ") in " + files
                   : human_bytes(found.bytes) + " of text in " + files;
  return found;
}

/// The text of the experiments.
class Experiments {
 public:
  Experiments(const Found& found, const Options& options)
      : found_(found), model_(options.model.empty() ? fs::path() : absolute_path(options.model)), lora_(options.lora) {
    check_is_utf8(model_.string(), "init --model");
    choose_tokenizer();
    if (found.kind == DataKind::records)
      size_for_records();
    else if (found.kind == DataKind::tokens)
      size_for_tokens();
    else
      size_for_text();
  }

  std::string text(const std::string& name) const {
    if (name == "baseline") return baseline();
    const std::string start = about(name) + "extends = \"baseline.toml\"\nname = " + quoted(run_name(name)) + "\n";
    if (name == "reference") return start + "\n[model]\n" + (has_model() ? "" : "layers = 4\n") + "future_tokens = 1\n";
    return start + "\n[pipeline]\nplugin = " + quoted(name) + "\nkeep = 0.6\n" +
           (name == "rho1" ? "\n[reference]\nexperiment = \"reference.toml\"\n" : "");
  }

  /// A line that says so, if nothing validates; else "".
  std::string no_validation() const {
    if (!validation_.empty()) return "";
    const bool are_records = found_.kind == DataKind::records;
    return std::string(are_records                       ? "too few records"
                       : found_.kind == DataKind::tokens ? "too few ids"
                                                         : "too little text") +
           " to hold out, so that nothing is validated until [validation] files names some\n";
  }

  /// Of the runs of an experiment: with an adapter others than without it, because both may be in one log.
  std::string run_name(const std::string& name) const { return name + (lora_ ? "-lora" : ""); }

 private:
  bool has_model() const { return !model_.empty(); }
  bool has_validation() const { return !found_.validation.empty(); }

  std::string baseline() const {
    const std::string adapter = lora_ ? "\n[adapter]\nplugin = \"lora\"\nrank = 16\nalpha = 32\n"
                                        "targets = [\"wq\", \"wk\", \"wv\", \"wo\", \"w1\", \"w2\", \"w3\"]\n"
                                      : "";
    const std::string lr = lora_ ? "2e-4" : has_model() ? "2e-5" : "2e-3";
    return about("baseline") + "name = " + quoted(run_name("baseline")) +
           "\nseed = 42\n\n[pipeline]\nplugin = \"baseline\"\n" + model() + adapter + data() + "\n[train]\n" + length_ +
           "\nbatch_size = " + std::to_string(batch_) + "\nsequence_length = " + std::to_string(sequence_) +
           "\n\n[optimizer]\nlr = " + lr +
           "\n\n[schedule]\nname = \"cosine\"\nwarmup_steps = " + std::to_string(warmup_steps) +
           "\n\n[checkpoint]\nevery_steps = 100\n" + validation_;
  }

  std::string validation_table() const {
    return "\n[validation]\nevery_steps = 50\nbatches = 16\n" +
           (has_validation() ? "files = " + toml_text(Value(found_.validation_patterns)) + "\n" : "");
  }
  static std::string quoted(const std::string& text) { return toml_text(Value(text)); }

  std::string about(const std::string& name) const {
    if (name == "baseline")
      return "# Multi-token prediction with equal token weights. The other files extend this one.\n";
    if (name == "rho1")
      return "# rho-1 (arXiv 2404.07965): each head learns from the 60% of the tokens that are hard for it, but not "
             "for the\n"
             "# reference.\n";
    if (name == "random") return "# The control of rho1.toml: each head learns from a random 60% of the tokens.\n";
    return "# The reference of rho1.toml. Here it learns from the same data; it is more useful if its data is "
           "cleaner:\n"
           "# set [data] files, and name its tokenizer's files in baseline.toml.\n";
  }

  std::string model() const {
    if (has_model())
      return "\n[model]\nweights = " + quoted(model_.string()) + "\nfuture_tokens = 4\nnew_heads = \"copy\"\n";
    return "\n[model]\ndim = 128\nlayers = 6             # 2 of the trunk, and one for each of the 4 future tokens\n"
           "heads = 4\nfuture_tokens = 4\n" + vocabulary_;
  }

  std::string data() const {
    const bool is_one = found_.kind == DataKind::tokens && found_.files.size() == 1;
    const std::string files =
        is_one ? "file = " + quoted(found_.files[0].string()) : "files = " + toml_text(Value(found_.patterns));
    return "\n[data]\nkind = " + quoted(to_string(found_.kind)) + "\n" + files + "\n" + more_data_ +
           (tokenizer_.empty() ? "" : "\n[data.tokenizer]\n" + tokenizer_);
  }

  void choose_tokenizer() {
    if (has_model()) {
      const fs::path file = tokenizer_file_in(model_);
      if (!is_there(file))
        throw Error(ExitStatus::data, model_.string() + " contains no tokenizer.json and no tokenizer.model");
      tokenizer_ = "kind = \"file\"\nfile = " + quoted(file.string()) + "\n";
      bytes_per_token_ = 3;
      has_template_ = is_tokenizer_json(file) && read_chat_template(file);
    } else if (found_.kind == DataKind::tokens) {
      if (!found_.tokenizer.empty()) tokenizer_ = "kind = \"file\"\nfile = " + quoted(found_.tokenizer.string()) + "\n";
    } else if (found_.kind == DataKind::text && found_.bytes >= bytes_for_bpe) {
      tokenizer_ = "kind = \"bpe\"\nvocab_size = 4096\n";
      bytes_per_token_ = 4;
    } else {
      tokenizer_ = "kind = \"byte\"      # with more data: \"bpe\" and a vocab_size\n";
    }
  }

  void size_for_records() {
    if (found_.is_chat && !has_template_) more_data_ += "template = \"chatml\"\n";
    if (found_.has_wrong) more_data_ += "select = \"correct\"      # leaves wrong answers out\n";
    more_data_ += "too_long = \"truncate\"\n";
    const int64_t wanted = round_up(found_.longest / bytes_per_token_ + 1, 64);
    sequence_ = std::min(max_init_sequence, wanted);
    batch_ = std::min<int64_t>(4, found_.records);
    if (has_validation() || found_.records >= min_records_to_validate) validation_ = validation_table();
  }

  /// A model may have more ids than its data contain, or than its tokenizer.json states.
  int64_t token_vocabulary() const {
    int64_t ids = found_.largest_id + 1;
    if (is_tokenizer_json(found_.tokenizer)) ids = std::max(ids, json_tokenizer(found_.tokenizer)->vocab_size());
    return round_up(ids, vocab_multiple);
  }

  int64_t held_ids(const TokenIdLayout& layout) const {
    return has_validation() ? 0 : int64_t(double(layout.count) * held_out);
  }

  /// Windows to train on; 0 if a file has none.
  int64_t token_windows() const {
    int64_t windows = 0;
    for (const TokenIdLayout& layout : found_.ids) {
      const int64_t of_file = (layout.count - held_ids(layout)) / sequence_;
      if (of_file == 0) return 0;
      windows += of_file;
    }
    return windows;
  }

  bool validates_on_tokens() const {
    const auto has_window = [&](int64_t ids) { return ids >= sequence_; };
    return has_validation()
               ? std::ranges::all_of(found_.validation_ids, has_window, &TokenIdLayout::count)
               : std::ranges::all_of(found_.ids, has_window, [&](const auto& layout) { return held_ids(layout); });
  }

  void size_for_tokens() {
    if (const std::string& type = found_.ids[0].type; type == "uint16" || type == "uint32")
      more_data_ += "dtype = " + quoted(type) + "\n";
    vocabulary_ = "vocab_size = " + std::to_string(token_vocabulary()) + "\n";
    sequence_ = text_sequence;
    while (sequence_ > min_init_sequence && (token_windows() < batch_ || !validates_on_tokens())) sequence_ /= 2;
    const int64_t windows = token_windows(), wanted = steps * batch_;
    if (windows < batch_)
      throw Error(ExitStatus::data,
                  join_names(found_.patterns) + ": found " + found_.text + ", which is too little to train on");
    if (windows < wanted) length_ = "epochs = " + std::to_string((wanted + windows - 1) / windows);
    if (validates_on_tokens())
      validation_ = validation_table() + (has_validation() ? "" : "share = 0.1          # the last ids of each file\n");
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
  std::string tokenizer_, vocabulary_, more_data_, validation_;
  std::string length_ = "steps = " + std::to_string(steps);
  int64_t bytes_per_token_ = 1, sequence_ = 0, batch_ = 4;
  bool lora_ = false, has_template_ = false;
};

/// "meta-llama/Llama-3.2-1B", which is no path here.
bool is_hub_name(const std::string& name) {
  const auto is_part_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  const size_t slash = name.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < name.size() && name[0] != '.' && !is_there(name) &&
         std::ranges::all_of(name.substr(0, slash) + name.substr(slash + 1), is_part_of_name);
}

void check_model(const std::string& model) {
  if (is_hub_name(model)) {
    const std::string folder = fs::path(model).filename().string();
    throw Error(ExitStatus::usage, model +
                                       " is no folder, and nothing is downloaded; if it is a model of the Hugging "
                                       "Face Hub, fetch it with `hf download " +
                                       model + " --local-dir " + folder + "` and name the folder " + folder);
  }
  if (fs::is_regular_file(model) && has_name_of_ids(model))
    throw Error(ExitStatus::usage, model +
                                       " is no folder of a model; quote a pattern of several files: wmtp-host init "
                                       "'fineweb_train_*.bin'");
  if (!is_model(model))
    throw Error(ExitStatus::usage, model + " is no folder of a Hugging Face model: it contains no config.json");
  for (const fs::path& file : paths_in(model))
    if (fs::is_regular_file(file)) refuse_pointer(file, read_file_start(file, pointer_bytes));
  check_no_adapter_beside(model);
  read_hf_shape(model);
}

int init(const Options& options, const GlobalOptions&) {
  if (options.model.empty() && is_model(options.data))
    throw Error(ExitStatus::usage, options.data + " is a model, which needs data to train on: wmtp-host init DATA " +
                                       shell_path(options.data));
  if (!options.model.empty()) check_model(options.model);
  if (options.lora && options.model.empty())
    throw Error(ExitStatus::usage, "--lora updates a model: name its folder after the data");
  const auto file_of = [&](const std::string& name) { return fs::path(options.folder) / (name + ".toml"); };
  for (const std::string name : names)
    if (is_there(file_of(name)))
      throw Error(ExitStatus::usage, file_of(name).string() + " already exists; choose another folder with -o");
  const Found found = inspect_path(options.data);
  for (const auto* files : {&found.files, &found.validation})
    for (const std::string& gap : gaps_in_numbers(*files)) log_warning(gap);
  if (!options.model.empty())
    for (const std::string& difference : training_differences(options.model))
      log_warning(options.model + ": " + difference);
  const Experiments experiments(found, options);
  fs::create_directories(options.folder);
  for (const std::string name : names) write_new_file(file_of(name), experiments.text(name));
  const std::string baseline = shell_path(file_of("baseline").string()), rho1 = shell_path(file_of("rho1").string());
  std::cout << "found " << found.text << "\n"
            << found.remarks << experiments.no_validation() << "wrote " << file_of("baseline").string() << ", "
            << file_of("reference").string() << ", " << file_of("rho1").string() << " and "
            << file_of("random").string() << "\nnext:\n"
            << "  wmtp-host plan " << rho1 << "      # memory and tokens before it runs\n"
            << "  wmtp-host run " << baseline << "\n"
            << "  wmtp-host run " << rho1 << "       # trains the reference first\n"
            << "  wmtp-host runs compare " << experiments.run_name("rho1") << " " << experiments.run_name("baseline")
            << "\n";
  return 0;
}

}  // namespace

void add_init(CommandLine& line) {
  auto [app, options] =
      line.add("init",
               "write ready-to-run experiments for your data\n\n"
               "DATA is a file, a quoted pattern of files, or a folder: text; JSON lines of texts, or of records in\n"
               "a format of data.format; token ids (.bin, .npy), with val.bin, tokenizer.json and its\n"
               "tokenizer_config.json beside them. Without MODEL, a small model is trained from the beginning. Writes\n"
               "baseline.toml and, extending it, reference.toml, rho1.toml and its control random.toml.\n\n"
               "examples:\n"
               "  wmtp-host init novel.txt\n"
               "  wmtp-host init 'fineweb_train_*.bin'\n"
               "  wmtp-host init chats.jsonl Qwen2.5-0.5B-Instruct -o chats\n",
               init);
  add_option(app, "DATA", options.data, "data to train on", required);
  add_option(app, "MODEL", options.model, "Hugging Face folder to start from");
  app.add_flag("--lora", options.lora, "train a LoRA adapter of MODEL instead of all parameters");
  add_option(app, "-o,--output DIR", options.folder, "folder of the experiments", shows_default);
}

}  // namespace wmtp
