#include "experiment/load/document.hpp"

#include <algorithm>
#include <utility>

#include "base/normal_path.hpp"
#include "experiment/schema.hpp"
#include "experiment/toml/toml_source.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Makes the texts of a path's value absolute, or of lists of values in [sweep].
void make_absolute(Node& value, PathKind kind, const fs::path& folder) {
  const bool is_path = value.kind == Node::Kind::text && !value.text.empty();
  if (is_path && !(kind == PathKind::weights && value.text.starts_with("run:")))
    value.text = absolute_path(folder / value.text).string();
  for (Node& item : value.items) make_absolute(item, kind, folder);
}

/// Two keys of a table that state the same in different ways, so that an experiment has at most one of them.
struct Alternatives {
  const char *table, *one, *other;
};
constexpr Alternatives all_alternatives[] = {
    {"train", "steps", "epochs"},       {"train", "gradient_accumulation", "global_batch_size"},
    {"data", "file", "files"},          {"validation", "files", "share"},
    {"model", "experiment", "weights"}, {"reference", "experiment", "weights"},
    {"value", "experiment", "weights"},
};

void remove_key(Node& table, const char* key) {
  std::erase_if(table.entries, [&](auto& one) { return one.key == key; });
}

/// Removes from `root` the alternatives to keys that replace them: `states(path)` says which are stated.
template <class States>
void remove_replaced(Node& root, const States& states) {
  const auto choose = [&](Entry* table, const std::string& path, const char* one, const char* other) {
    if (!table) return;
    const bool states_one = states(key_path(path, one)), states_other = states(key_path(path, other));
    if (states_one && !states_other) remove_key(table->value, other);
    if (states_other && !states_one) remove_key(table->value, one);
  };
  for (const auto& [table, one, other] : all_alternatives) choose(root.find(table), table, one, other);
  if (Entry* const references = root.find("references"))
    for (Entry& named : references->value.entries) choose(&named, reference_table(named.key), "experiment", "weights");
}

void inherit(Node& own, Node&& base) {
  for (Entry& theirs : base.entries) {
    Entry* const ours = own.find(theirs.key);
    if (!ours)
      own.entries.push_back(std::move(theirs));
    else if (ours->value.kind == Node::Kind::table && theirs.value.kind == Node::Kind::table)
      inherit(ours->value, std::move(theirs.value));
  }
}

constexpr const char* weighting_tables[] = {"pipeline", "reference", "references", "value"};
bool is_of_weighting(const Entry& entry) { return std::ranges::count(weighting_tables, entry.key) > 0; }

/// Tables that decide how a model was trained, but not how it reads data.
constexpr const char* training_tables[] = {"adapter",    "auxiliary_loss", "optimizer", "schedule", "parallel",
                                           "checkpoint", "guard",          "log",       "sweep"};

/// Leaves what read_document takes from an experiment that was run.
void keep_reading_of_data(Node& past) {
  const Entry* const parallel = past.find("parallel");
  Node kept;
  for (const char* key : {"precision", "device"})
    if (const Entry* const found = parallel ? parallel->value.find(key) : nullptr) kept.entries.push_back(*found);
  std::erase_if(past.entries, [](const Entry& entry) {
    return is_of_weighting(entry) || std::ranges::count(training_tables, entry.key) > 0;
  });
  if (parallel) past.entries.push_back({"parallel", {}, std::move(kept)});
  if (Entry* const model = past.find("model"))
    for (const char* key : {"experiment", "weights", "new_heads"}) remove_key(model->value, key);
}

class Reader {
 public:
  Reader(SourceTexts& texts, Diagnostics& diagnostics) : texts_(texts), diagnostics_(diagnostics) {}

  Document read(const fs::path& file) {
    Document document;
    const std::string& text = texts_.text(file);
    document.source = diagnostics_.add_file(file.string(), text);
    chain_.push_back(fs::weakly_canonical(fs::absolute(file)));
    document.root = parse_source(document.source, text, diagnostics_);
    if (!document.root) return document;
    std::vector<Entry>& entries = document.root->entries;
    const auto extends = std::find_if(entries.begin(), entries.end(), [](auto& one) { return one.key == "extends"; });
    if (extends == entries.end()) return document;
    const Node stated = extends->value;
    entries.erase(extends);
    std::optional<Node> base = base_of(file, stated);
    if (!base) return {document.source, std::nullopt};
    remove_replaced(*base, [&](const std::string& path) { return entry_at(*document.root, path) != nullptr; });
    inherit(*document.root, std::move(*base));
    return document;
  }

 private:
  std::optional<Node> base_of(const fs::path& file, const Node& stated) {
    ValueRule rule;
    rule.may_be_empty = false;
    const auto value = check_value(stated, rule, "extends", diagnostics_);
    if (!value) return std::nullopt;
    const fs::path base = normal_path(file.parent_path() / std::get<std::string>(*value));
    const fs::path canonical = fs::weakly_canonical(fs::absolute(base));
    if (const auto again = std::find(chain_.begin(), chain_.end(), canonical); again != chain_.end()) {
      std::string names;
      for (auto one = again; one != chain_.end(); ++one) names += one->filename().string() + " > ";
      diagnostics_.add(stated.position,
                       "the files extend each other in a cycle: " + names + canonical.filename().string(),
                       "remove one of these references");
      return std::nullopt;
    }
    std::optional<Node> root;
    try {
      root = read(base).root;
    } catch (const Error& error) {
      diagnostics_.add(stated.position, error.what());
    }
    if (root && base.parent_path() != normal_path(file).parent_path())
      make_paths_absolute(*root, "", base.parent_path());
    return root;
  }

  SourceTexts& texts_;
  Diagnostics& diagnostics_;
  std::vector<fs::path> chain_;
};

}  // namespace

const Entry* entry_at(const Node& root, const std::string& path) {
  const Node* table = &root;
  size_t from = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; from = dot + 1, dot = path.find('.', from)) {
    const Entry* const found = table->find(path.substr(from, dot - from));
    if (!found) return nullptr;
    table = &found->value;
  }
  return table->find(path.substr(from));
}

void make_paths_absolute(Node& table, const std::string& name, const fs::path& folder) {
  for (Entry& entry : table.entries) {
    const std::string path = key_path(name, entry.key);
    const size_t dot = path.rfind('.');
    const SchemaTable* const in = find_table(dot == std::string::npos ? "" : path.substr(0, dot));
    const Key* const key = in ? find_key(*in, path.substr(dot + 1)) : nullptr;
    // The keys of [sweep] and of each table in [[sweep.members]] are those of the experiment.
    const bool restarts = path == "sweep";
    if (entry.value.kind == Node::Kind::table) make_paths_absolute(entry.value, restarts ? "" : path, folder);
    if (entry.key == "members")
      for (Node& member : entry.value.items) make_paths_absolute(member, "", folder);
    if (key && key->path_kind != PathKind::none) make_absolute(entry.value, key->path_kind, folder);
  }
}

Document read_document(const fs::path& file, const std::vector<std::string>& overrides, SourceTexts& texts,
                       Diagnostics& diagnostics, const PastExperiment* past) {
  Document document = Reader(texts, diagnostics).read(file);
  if (past && document.root) {
    auto rest = parse_source(diagnostics.add_file(past->title, past->toml), past->toml, diagnostics);
    if (!rest) return {document.source, std::nullopt};
    std::erase_if(document.root->entries, [](const Entry& entry) { return !is_of_weighting(entry); });
    keep_reading_of_data(*rest);
    inherit(*document.root, std::move(*rest));
  }
  if (document.root)
    remove_replaced(*document.root, [&](const std::string& path) {
      return std::ranges::any_of(overrides, [&](const std::string& one) { return overridden_key(one) == path; });
    });
  Node discarded;
  for (const std::string& one : overrides) apply_override(document.root ? *document.root : discarded, one, diagnostics);
  if (!document.root) return document;
  if (const Entry* const late = document.root->find("extends"))
    diagnostics.add(late->position, "\"extends\" can be set only in a file, before --set changes its values",
                    "write a file that extends the other one");
  return document;
}

}  // namespace wmtp
