// Rules of [data] and its tables: keys for each kind of data, tokenizers, bins of difficulty and length.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/text.hpp"
#include "experiment/canonical.hpp"
#include "experiment/difficulty.hpp"
#include "experiment/load/rules.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

class DataRules : RuleChecker {
 public:
  DataRules(const BoundExperiment& bound, Diagnostics& diagnostics) : RuleChecker(bound, diagnostics) {}

  void all() {
    kinds();
    arithmetic();
    validation_share();
    tokenizer();
    chat_template();
    length_bins();
    if (!e_.data.difficulty.given) return;
    difficulty_bins();
    difficulty_weights("weights", e_.data.difficulty.weights);
    difficulty_weights("end_weights", e_.data.difficulty.end_weights);
    difficulty_order();
    if (e_.data.packing && bound_.all_valid({"data.packing"}))
      refuse_key("data.packing", "found packing and [data.difficulty], wanted one of them",
                 "a packed sequence contains records of several difficulties; remove one");
  }

 private:
  void kinds() {
    if (!bound_.all_valid({"data", "data.kind"})) return;
    const DataKind kind = e_.data.kind;
    const std::string shown_kind = quote(to_string(kind));
    for (const SchemaTable& table : schema()) {
      if (!applies_to(table.kinds, kind) && bound_.has(table.name)) {
        refuse_key(table.name, "[" + table.name + "] does not apply to data of kind " + shown_kind,
                   "remove the table; it is for kind " + join_names(names(table.kinds)));
      }
      for (const Key& key : table.keys) {
        const std::string path = key_path(table.name, key.name);
        if (applies_to(key.kinds, kind) || !bound_.has(path)) continue;
        refuse_key(path, "[" + table.name + "] " + key.name + " does not apply to data of kind " + shown_kind,
                   "remove the key; it is for kind " + join_names(names(key.kinds)));
      }
    }
    const bool generated = bound_.has("data.arithmetic");
    const bool has_file = bound_.has("data.file"), has_files = bound_.has("data.files");
    const bool is_tokens = kind == DataKind::tokens;
    if (is_tokens && has_file && has_files)
      refuse_key("data.file", "found both file and files, wanted one of them",
                 "files are patterns of several files, such as shards; file is one file");
    if ((is_tokens || (has_tokenizer(e_.data) && !generated)) && !has_files && !(is_tokens && has_file)) {
      const std::string needed = is_tokens ? "file or files" : "files";
      diagnostics_.add(bound_.keys.at("data"), "[data] lacks " + needed + ", which kind " + shown_kind + " requires");
    }
  }

  void arithmetic() {
    if (!bound_.has("data.arithmetic") || !bound_.all_valid({"data", "data.kind"}) || e_.data.kind != DataKind::records)
      return;
    const ArithmeticConfig& a = e_.data.arithmetic;
    if (bound_.has("data.files")) {
      refuse_key("data.files", "found both files and [data.arithmetic], wanted one of them",
                 "the table generates the records instead of reading them from files");
    }
    if (bound_.all_valid({"data.arithmetic.min_operations", "data.arithmetic.max_operations"}) &&
        a.min_operations > a.max_operations) {
      refuse("data.arithmetic.min_operations", "found min_operations " + number(a.min_operations) +
                                                   ", wanted at most max_operations = " + number(a.max_operations));
    }
    if (bound_.all_valid({"data.arithmetic.answers_right", "data.arithmetic.answers_wrong"}) &&
        a.answers_right + a.answers_wrong == 0) {
      refuse("data.arithmetic.answers_wrong",
             "found answers_right 0 and answers_wrong 0, wanted at least one answer to each problem");
    }
    const std::set<std::string> operations(a.operations.begin(), a.operations.end());
    if (bound_.all_valid({"data.arithmetic.operations"}) && operations.size() < a.operations.size())
      refuse("data.arithmetic.operations", "found an operation twice, wanted each at most once");
  }

  void validation_share() {
    if (!bound_.has("validation.share") || !bound_.has("validation.files")) return;
    refuse_key("validation.share", "found both files and share, wanted one of them",
               "files holds out whole files; share holds out the end of each file in data.files");
  }

  void tokenizer() {
    if (!bound_.all_valid({"data.kind", "data.tokenizer", "data.tokenizer.kind", "data.tokenizer.vocab_size"})) return;
    const TokenizerConfig& t = e_.data.tokenizer;
    const bool has_file = bound_.has("data.tokenizer.file");
    if (has_file && t.kind != TokenizerKind::file)
      refuse_key("data.tokenizer.file", "[data.tokenizer] file does not apply to kind " + quote(to_string(t.kind)),
                 "remove it, or set kind = \"file\"");
    if (t.kind == TokenizerKind::file) tokenizer_file(has_file);
    if (e_.data.kind == DataKind::tokens && t.given && t.kind != TokenizerKind::file)
      refuse_key("data.tokenizer",
                 "found a tokenizer of kind " + quote(to_string(t.kind)) +
                     " for token ids, wanted kind \"file\": the one that wrote them",
                 "set file to its tokenizer.json or tokenizer.model, or remove the table, which is only needed to show "
                 "ids as text");
    if (has_tokenizer(e_.data) && t.kind == TokenizerKind::bpe && !bound_.has("data.tokenizer.vocab_size")) {
      refuse("data.tokenizer.vocab_size", "[data.tokenizer] lacks vocab_size, which kind \"bpe\" requires");
      return;
    }
    if (has_tokenizer(e_.data) && t.kind == TokenizerKind::byte) {
      if (t.vocab_size != byte_vocab_size) {
        refuse("data.tokenizer.vocab_size", "found vocab_size " + number(t.vocab_size) + ", wanted " +
                                                number(byte_vocab_size) + ", the size of the byte tokenizer");
      }
      if (bound_.has("data.tokenizer.files")) {
        refuse_key("data.tokenizer.files",
                   "[data.tokenizer] files does not apply to kind \"byte\", which is not trained", "remove the key");
      }
    }
    if (!bound_.all_valid({"model", "model.vocab_size"})) return;
    if (has_tokenizer(e_.data) && t.kind == TokenizerKind::file) {
      if (e_.model.vocab_size == 0)
        refuse("model.vocab_size", "[model] lacks vocab_size, which a tokenizer of kind \"file\" requires",
               "set the size of the weights' vocabulary, at least the number of the tokenizer's ids");
    } else if (has_tokenizer(e_.data) && e_.model.vocab_size != t.vocab_size) {
      refuse("model.vocab_size",
             "found vocab_size " + number(e_.model.vocab_size) + ", wanted " + number(t.vocab_size) +
                 ", the size of the tokenizer",
             bound_.has("model.vocab_size") ? "remove the key: its default is the size of the tokenizer"
                                            : "the weights state it: set [data.tokenizer] kind = \"file\" and file to "
                                              "their own tokenizer");
    }
    if (!has_tokenizer(e_.data) && e_.model.vocab_size == 0) {
      refuse("model.vocab_size",
             "[model] lacks vocab_size, which data of kind " + quote(to_string(e_.data.kind)) + " requires");
    }
  }

  void tokenizer_file(bool has_file) {
    if (!has_file) refuse("data.tokenizer.kind", "[data.tokenizer] lacks file, which kind \"file\" requires");
    for (const std::string key : {"vocab_size", "files"})
      if (bound_.has("data.tokenizer." + key))
        refuse_key("data.tokenizer." + key, "[data.tokenizer] " + key + " does not apply to kind \"file\"",
                   "remove the key: the file defines the tokenizer");
  }

  void chat_template() {
    if (e_.data.prompt_template != "chat" ||
        !bound_.all_valid({"data.template", "data.tokenizer", "data.tokenizer.kind"}) ||
        !bound_.all_valid({"data.tokenizer.file"}))
      return;
    const TokenizerConfig& t = e_.data.tokenizer;
    if (t.kind == TokenizerKind::file && !t.file.ends_with(".json"))
      refuse("data.template", "found template \"chat\" with a SentencePiece model, wanted a tokenizer.json",
             "a SentencePiece model does not read the special tokens that chat templates write");
    else if (t.kind != TokenizerKind::file)
      refuse("data.template",
             "template \"chat\" needs the chat template of a tokenizer of kind \"file\", found kind " +
                 quote(to_string(t.kind)),
             "set template = \"chatml\", or use the tokenizer of a model");
  }

  void length_bins() {
    const std::vector<double>& bounds = e_.data.length_bins;
    if (!bound_.has("data.length_bins") || !bound_.all_valid({"data.length_bins"})) return;
    for (size_t i = 0; i < bounds.size(); ++i) {
      const bool whole = std::floor(bounds[i]) == bounds[i];
      if (whole && (i == 0 || bounds[i] > bounds[i - 1])) continue;
      refuse(item("data.length_bins", i),
             whole ? "length_bins are not ascending: found " + shown(bounds[i]) + " after " + shown(bounds[i - 1])
                   : "found the bound " + shown(bounds[i]) + ", wanted an integer number of tokens");
    }
  }

  void difficulty_bins() {
    if (!bound_.all_valid({"data.difficulty.bins"})) return;
    const std::vector<std::string>& bins = e_.data.difficulty.bins;
    std::vector<std::pair<DifficultyRange, std::string>> before;
    for (size_t i = 0; i < bins.size(); ++i) {
      const std::string key = item("data.difficulty.bins", i);
      const auto range = parse_difficulty_range(bins[i]);
      if (!range) {
        refuse(key, "found the bin " + quote(bins[i]) + ", wanted a closed range such as \"6-10\"",
               "two integers, the smaller one first");
        continue;
      }
      for (const auto& [other, text] : before) {
        if (range->first <= other.last && other.first <= range->last)
          refuse(key, "bin " + quote(bins[i]) + " overlaps " + quote(text), "bins must be disjoint");
      }
      before.emplace_back(*range, bins[i]);
    }
  }

  void difficulty_weights(const std::string& name, const std::vector<double>& weights) {
    const std::string key = "data.difficulty." + name;
    if (!bound_.has(key) || bound_.invalid_keys.count(key) || !bound_.all_valid({"data.difficulty.bins"})) return;
    const size_t bins = e_.data.difficulty.bins.size();
    if (weights.size() != bins) {
      refuse(key, "found " + number(int64_t(weights.size())) + " " + name + " for " + number(int64_t(bins)) +
                      " bins, wanted one for each");
    } else if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0) {
      refuse(key, name + " are all 0, so no record would be drawn", "set a weight above 0 for each bin to train on");
    }
  }

  void difficulty_order() {
    if (!bound_.has("data.order") || e_.data.order != DataOrder::sequential) return;
    refuse("data.order", "order \"sequential\" does not apply to [data.difficulty], which defines the order of records",
           "remove one of them");
  }

  static std::string item(const std::string& key, size_t i) { return key_path(key, std::to_string(i)); }
  static std::string shown(double value) { return printed("%.15g", value); }
};

/// Everything that the training text of a tokenizer depends on.
std::set<std::string> tokenizer_text(const Experiment& e) {
  std::set<std::string> text;
  if (e.data.tokenizer.kind == TokenizerKind::file) text.insert(e.resolve(e.data.tokenizer.file).string());
  if (e.data.tokenizer.kind != TokenizerKind::bpe) return text;
  const bool own_files = !e.data.tokenizer.files.empty();
  for (const std::string& file : own_files ? e.data.tokenizer.files : e.data.files)
    text.insert(e.resolve(file).string());
  if (own_files) return text;
  if (e.data.kind == DataKind::records) {
    text.insert("format " + e.data.format);
    text.insert("template " + e.data.prompt_template);
    for (const std::string& file : e.data.exclude) text.insert("without " + e.resolve(file).string());
  }
  text.insert(std::string("kind ") + to_string(e.data.kind));
  text.insert("separator " + e.data.separator);
  text.insert("without the last " + printed("%.17g", held_out_share(e)));
  text.insert(table_text(e, "data.arithmetic"));
  return text;
}

}  // namespace

void check_data_rules(const BoundExperiment& bound, Diagnostics& diagnostics) { DataRules(bound, diagnostics).all(); }

bool same_tokenizer(const Experiment& one, const Experiment& other) {
  const TokenizerConfig &a = one.data.tokenizer, &b = other.data.tokenizer;
  return a.kind == b.kind && a.vocab_size == b.vocab_size && tokenizer_text(one) == tokenizer_text(other);
}

}  // namespace wmtp
