// See rules.hpp.
#include "experiment/rules.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

constexpr int64_t byte_vocab_size = 258;

std::string number(int64_t value) { return std::to_string(value); }

// Llama's rule: 2/3 of 4 dim, rounded up to a multiple of 256.
int64_t llama_ffn_dim(int64_t dim) { return (8 * dim / 3 + 255) / 256 * 256; }

class Rules {
 public:
  Rules(const Bound& bound, Diagnostics& diagnostics)
      : bound_(bound), e_(bound.experiment), diagnostics_(diagnostics) {}

  void all(const std::vector<std::string>& reads) {
    name();
    model("model", e_.model);
    if (e_.reference.model) model("reference.model", *e_.reference.model);
    lengths();
    steps();
    data();
    arithmetic();
    tokenizer();
    reference(reads);
  }

 private:
  void refuse(const std::string& key, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(bound_.place(key), message, hint);
  }
  // At the key itself: it is one too many.
  void refuse_key(const std::string& key, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(bound_.keys.at(key), message, hint);
  }

  void name() {
    if (!bound_.good({"name"})) return;
    const bool letters = std::all_of(e_.name.begin(), e_.name.end(), [](unsigned char byte) {
      return std::isalnum(byte) || byte == '.' || byte == '_' || byte == '-';
    });
    if (letters && !e_.name.empty() && e_.name.size() <= 64 && std::isalnum(static_cast<unsigned char>(e_.name[0])))
      return;
    refuse("name",
           "name: found " + quote(e_.name) +
               ", wanted at most 64 letters, digits, '.', '_' or '-', the first a letter or digit",
           "the run's folder is named after it");
  }

  void model(const std::string& table, const ModelConfig& m) {
    const auto at = [&](const char* key) { return table + "." + key; };
    const auto good = [&](std::initializer_list<const char*> keys) {
      // A shape that takes values from [model] is only as good as they are.
      return std::all_of(keys.begin(), keys.end(), [&](const char* key) {
        return !bound_.bad.count(at(key)) && !bound_.bad.count(path_of("model", key));
      });
    };
    if (good({"dim", "heads"}) && m.dim % m.heads != 0) {
      refuse(at("heads"), "found " + number(m.heads) + " heads for dim " + number(m.dim) + ", wanted a divisor of dim");
    } else if (good({"dim", "heads"}) && m.dim / m.heads % 2 != 0) {
      refuse(at("heads"), "dim / heads is " + number(m.dim / m.heads) + ", wanted an even number",
             "the rotary embedding turns pairs");
    }
    if (good({"heads", "kv_heads"}) && m.heads % m.kv_heads != 0) {
      refuse(at("kv_heads"),
             "found " + number(m.kv_heads) + " kv_heads for " + number(m.heads) + " heads, wanted a divisor of heads");
    }
    if (good({"layers", "future_tokens"}) && m.layers < m.future_tokens) {
      refuse(at("layers"),
             "found " + number(m.layers) + " layers for " + number(m.future_tokens) +
                 " future_tokens, wanted at least one layer for each",
             "layers counts trunk and heads together");
    }
    if (table != "model" && good({"vocab_size"}) && m.vocab_size != e_.model.vocab_size) {
      refuse(at("vocab_size"), "the reference has " + number(m.vocab_size) + " tokens, the model " +
                                   number(e_.model.vocab_size) + ", wanted the same vocabulary");
    }
    // Told for [reference.model] only where that table sets the length: [model] itself tells the rest.
    const bool own_length = table == "model" || bound_.has(at("max_sequence_length"));
    if (own_length && good({"max_sequence_length"}) && bound_.good({"train.sequence_length"}) &&
        e_.train.sequence_length > m.max_sequence_length) {
      refuse("train.sequence_length", "a sequence longer than the model: found " + number(e_.train.sequence_length) +
                                          " tokens, wanted at most [" + table +
                                          "] max_sequence_length = " + number(m.max_sequence_length));
    }
  }

  void lengths() {
    if (bound_.good({"train.sequence_length", "model.future_tokens"}) &&
        e_.train.sequence_length <= e_.model.future_tokens) {
      refuse("train.sequence_length", "found a sequence of " + number(e_.train.sequence_length) + " tokens for " +
                                          number(e_.model.future_tokens) +
                                          " future_tokens, wanted more tokens than that");
    }
  }

  void steps() {
    if (!bound_.good({"train", "train.steps", "train.epochs"})) return;
    const bool steps = bound_.has("train.steps"), epochs = bound_.has("train.epochs");
    if (!steps && !epochs) refuse("train.", "[train] lacks steps or epochs: nothing says how long to train");
    if (steps && epochs) refuse_key("train.epochs", "found both steps and epochs, wanted one of them");
    if (epochs && e_.data.kind == "random") {
      refuse_key("train.epochs", "random data has no end, so there are no epochs", "give [train] steps");
    }
    if (steps && bound_.good({"schedule.warmup_steps"}) && e_.schedule.warmup_steps >= e_.train.steps) {
      refuse("schedule.warmup_steps", "found " + number(e_.schedule.warmup_steps) + " warmup_steps, wanted less than " +
                                          "[train] steps = " + number(e_.train.steps));
    }
  }

  void data() {
    if (!bound_.good({"data", "data.kind"})) return;
    const auto fits = [&](const std::vector<std::string>& kinds) {
      return kinds.empty() || std::find(kinds.begin(), kinds.end(), e_.data.kind) != kinds.end();
    };
    for (const SchemaTable& table : schema()) {
      if (!fits(table.kinds) && bound_.has(table.name)) {
        refuse_key(table.name, "[" + table.name + "] does not go with data of kind " + quote(e_.data.kind),
                   "it is for kind " + join_names(table.kinds) + ": remove the table");
      }
      for (const Key& key : table.keys) {
        const std::string path = path_of(table.name, key.name);
        if (fits(key.kinds) || !bound_.has(path)) continue;
        refuse_key(path, "[" + table.name + "] " + key.name + " does not go with kind " + quote(e_.data.kind),
                   "it is for kind " + join_names(key.kinds) + ": remove it");
      }
    }
    const std::string needed = e_.data.kind == "text" ? "files" : e_.data.kind == "tokens" ? "file" : "";
    if (!needed.empty() && !bound_.has("data." + needed)) {
      diagnostics_.add(bound_.keys.at("data"),
                       "[data] lacks " + needed + ", which kind " + quote(e_.data.kind) + " needs");
    }
  }

  void arithmetic() {
    if (!bound_.has("data.arithmetic") || !bound_.good({"data", "data.kind"}) || e_.data.kind != "records") return;
    const ArithmeticConfig& a = e_.data.arithmetic;
    if (bound_.has("data.files")) {
      refuse_key("data.files", "found both files and [data.arithmetic], wanted one of them",
                 "the table makes the records that files would name");
    }
    if (bound_.good({"data.arithmetic.min_operations", "data.arithmetic.max_operations"}) &&
        a.min_operations > a.max_operations) {
      refuse("data.arithmetic.min_operations", "found min_operations " + number(a.min_operations) +
                                                   ", wanted at most max_operations = " + number(a.max_operations));
    }
    if (bound_.good({"data.arithmetic.answers_right", "data.arithmetic.answers_wrong"}) &&
        a.answers_right + a.answers_wrong == 0) {
      refuse("data.arithmetic.answers_wrong",
             "found neither answers_right nor answers_wrong, wanted at least one answer to each problem");
    }
    const std::set<std::string> operations(a.operations.begin(), a.operations.end());
    if (bound_.good({"data.arithmetic.operations"}) && operations.size() < a.operations.size()) {
      refuse("data.arithmetic.operations", "found an operation twice, wanted each at most once",
             "all that are named are drawn alike");
    }
  }

  void tokenizer() {
    if (!bound_.good({"data.kind", "data.tokenizer", "data.tokenizer.kind", "data.tokenizer.vocab_size"})) return;
    const TokenizerConfig& t = e_.data.tokenizer;
    if (e_.data.kind == "text" && t.kind == "bpe" && !bound_.has("data.tokenizer.vocab_size")) {
      refuse("data.tokenizer.vocab_size", "[data.tokenizer] lacks vocab_size, which kind \"bpe\" needs");
      return;
    }
    if (e_.data.kind == "text" && t.kind == "byte") {
      if (t.vocab_size != byte_vocab_size) {
        refuse("data.tokenizer.vocab_size",
               "found vocab_size " + number(t.vocab_size) + ", but the byte tokenizer has " + number(byte_vocab_size));
      }
      if (bound_.has("data.tokenizer.files")) {
        refuse_key("data.tokenizer.files", "the byte tokenizer is not trained, so it takes no files", "remove the key");
      }
    }
    if (!bound_.good({"model", "model.vocab_size"})) return;
    if (e_.data.kind == "text" && e_.model.vocab_size != t.vocab_size) {
      refuse("model.vocab_size",
             "found vocab_size " + number(e_.model.vocab_size) + ", but the tokenizer has " + number(t.vocab_size),
             "leave the key out: it follows the tokenizer");
    }
    if (e_.data.kind != "text" && !bound_.has("model.vocab_size")) {
      refuse("model.vocab_size", "[model] lacks vocab_size, which data of kind " + quote(e_.data.kind) + " needs");
    }
  }

  void reference(const std::vector<std::string>& reads) {
    const auto read =
        std::find_if(reads.begin(), reads.end(), [](const std::string& one) { return one.starts_with("reference."); });
    const bool reading_known = bound_.good({"pipeline", "pipeline.plugin"});
    if (!bound_.has("reference")) {
      if (reading_known && read != reads.end()) {
        refuse("pipeline.plugin",
               "pipeline " + quote(e_.pipeline.plugin) + " reads " + *read + ", but there is no [reference]",
               "add [reference] with experiment = \"reference.toml\" or weights = \"run:NAME\"");
      }
      return;
    }
    if (!bound_.good({"reference"})) return;
    const bool experiment = bound_.has("reference.experiment"), weights = bound_.has("reference.weights");
    if (!experiment && !weights) refuse("reference.", "[reference] lacks experiment or weights");
    if (experiment && weights) refuse_key("reference.weights", "found both experiment and weights, wanted one of them");
    if (experiment && bound_.has("reference.model")) {
      refuse_key("reference.model", "[reference.model] goes with weights; an experiment has a shape of its own",
                 "remove the table");
    }
    if (reading_known && read == reads.end()) {
      refuse_key("reference", "pipeline " + quote(e_.pipeline.plugin) + " reads nothing of a reference",
                 "remove [reference]: it would be trained for nothing");
    }
  }

  const Bound& bound_;
  const Experiment& e_;
  Diagnostics& diagnostics_;
};

// The patterns of the text that a tokenizer is trained on, as absolute paths in no order.
std::set<std::string> tokenizer_patterns(const Experiment& e) {
  std::set<std::string> patterns;
  if (e.data.tokenizer.kind != "bpe") return patterns;
  const auto& files = e.data.tokenizer.files.empty() ? e.data.files : e.data.tokenizer.files;
  for (const std::string& file : files) patterns.insert(e.resolve(file).string());
  return patterns;
}

}  // namespace

void resolve_defaults(Bound& bound) {
  Experiment& e = bound.experiment;
  TokenizerConfig& tokenizer = e.data.tokenizer;
  // Text is always read through a tokenizer, named or not.
  if (e.data.kind == "text" && bound.good({"data.tokenizer"})) tokenizer.given = true;
  if (tokenizer.kind == "byte" && !bound.has("data.tokenizer.vocab_size")) tokenizer.vocab_size = byte_vocab_size;
  ModelConfig& m = e.model;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.ffn_dim == 0) m.ffn_dim = llama_ffn_dim(m.dim);
  if (m.vocab_size == 0 && e.data.kind == "text") m.vocab_size = tokenizer.vocab_size;
  if (m.max_sequence_length == 0) m.max_sequence_length = e.train.sequence_length;
  // A default is as bad as what it follows from.
  const auto follow = [&](const char* key, const char* from) {
    if (!bound.has(key) && !bound.good({from})) bound.bad.insert(key);
  };
  follow("model.kv_heads", "model.heads");
  follow("model.max_sequence_length", "train.sequence_length");
  for (const char* from : {"data.kind", "data.tokenizer", "data.tokenizer.kind", "data.tokenizer.vocab_size"}) {
    follow("model.vocab_size", from);
  }

  if (!e.reference.model) return;
  ModelConfig& r = *e.reference.model;
  if (r.kv_heads == 0) r.kv_heads = r.heads == 0 ? m.kv_heads : r.heads;
  if (r.ffn_dim == 0) r.ffn_dim = r.dim == 0 ? m.ffn_dim : llama_ffn_dim(r.dim);
  for (int64_t ModelConfig::*member :
       {&ModelConfig::dim, &ModelConfig::layers, &ModelConfig::heads, &ModelConfig::vocab_size,
        &ModelConfig::future_tokens, &ModelConfig::max_sequence_length}) {
    if (r.*member == 0) r.*member = m.*member;
  }
  if (r.rope_theta == 0) r.rope_theta = m.rope_theta;
  if (r.norm_eps == 0) r.norm_eps = m.norm_eps;
}

void check_rules(const Bound& bound, const std::vector<std::string>& reads, Diagnostics& diagnostics) {
  Rules(bound, diagnostics).all(reads);
}

void check_stage(const Bound& bound, const Experiment& stage, Diagnostics& diagnostics) {
  const Experiment& e = bound.experiment;
  const Place place = bound.place("reference.experiment");
  if (e.data.kind == "text" && stage.data.kind == "text") {
    const TokenizerConfig &ours = e.data.tokenizer, &theirs = stage.data.tokenizer;
    const bool same = ours.kind == theirs.kind && ours.vocab_size == theirs.vocab_size &&
                      tokenizer_patterns(e) == tokenizer_patterns(stage);
    if (!same) {
      diagnostics.add(place,
                      "the stage has another tokenizer: found " + theirs.kind + " with " + number(theirs.vocab_size) +
                          " tokens, wanted " + ours.kind + " with " + number(ours.vocab_size) +
                          (ours.kind == "bpe" ? ", trained on the same files" : ""),
                      "give both the same [data.tokenizer] (kind, files and vocab_size)");
    }
  } else if (e.model.vocab_size != stage.model.vocab_size) {
    diagnostics.add(place, "the stage has " + number(stage.model.vocab_size) + " tokens, wanted vocab_size " +
                               number(e.model.vocab_size) + " as here");
  }
  if (stage.model.max_sequence_length < e.train.sequence_length) {
    diagnostics.add(place,
                    "a sequence longer than the stage's model: found sequence_length " +
                        number(e.train.sequence_length) + ", wanted at most " + number(stage.model.max_sequence_length),
                    "set [model] max_sequence_length in the stage");
  }
}

}  // namespace wmtp
