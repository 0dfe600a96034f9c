// See load.hpp.
#include "experiment/load.hpp"

#include <algorithm>

#include "experiment/plugin_options.hpp"
#include "experiment/rules.hpp"
#include "experiment/toml_source.hpp"

namespace wmtp {
namespace {

using Chain = std::vector<std::filesystem::path>;  ///< the files from the first experiment to the one in hand

class Loader {
 public:
  explicit Loader(const DescribePlugin& describe) : describe_(describe) {}

  /// The value is whole only when no mistake was added.
  Experiment load(const LoadRequest& request, Chain chain, const std::string& text) {
    const int source = diagnostics_.add_file(request.file.string(), text);
    std::optional<Node> document = parse_source(source, text, diagnostics_);
    Node fallback;
    for (const std::string& one : request.overrides) lay_override(document ? *document : fallback, one, diagnostics_);
    if (!document) return {};

    const size_t before = diagnostics_.count();
    Bound bound = bind(*document, source, diagnostics_);
    Experiment& e = bound.experiment;
    e.file = std::filesystem::absolute(request.file).lexically_normal();
    e.source = text;
    const auto reads = bind_plugin("pipeline", *document, describe_, e.pipeline, bound, diagnostics_);
    bind_plugin("adapter", *document, describe_, e.adapter, bound, diagnostics_);
    resolve_defaults(bound);
    check_rules(bound, reads, diagnostics_);
    hold_out(e, request.held_out);
    if (!e.reference.experiment.empty()) load_stage(bound, request, chain, before);
    return e;
  }

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  static void hold_out(Experiment& e, const std::vector<std::string>& patterns) {
    if (e.data.kind != "text") return;
    for (const std::string& pattern : patterns) {
      const auto known = [&](const std::string& one) { return e.resolve(one) == pattern; };
      if (std::none_of(e.data.exclude.begin(), e.data.exclude.end(), known)) e.data.exclude.push_back(pattern);
    }
  }

  void load_stage(Bound& bound, const LoadRequest& parent, Chain chain, size_t mistakes_before) {
    Experiment& e = bound.experiment;
    LoadRequest request;
    request.file = parent.file.parent_path() / e.reference.experiment;
    request.held_out = parent.held_out;
    for (const std::string& pattern : e.validation.files) request.held_out.push_back(e.resolve(pattern).string());

    const auto place = bound.place("reference.experiment");
    const auto canonical = std::filesystem::weakly_canonical(std::filesystem::absolute(request.file));
    if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
      std::string names;
      for (const auto& file : chain) names += file.filename().string() + " > ";
      diagnostics_.add(place, "a stage that needs itself: " + names + canonical.filename().string(),
                       "a reference is trained first, so it cannot follow from this experiment");
      return;
    }
    chain.push_back(canonical);
    std::string text;
    try {
      text = read_source(request.file, request.file.string());
    } catch (const Error& error) {
      diagnostics_.add(place, error.what());
      return;
    }
    const size_t before_stage = diagnostics_.count();
    const bool parent_good = before_stage == mistakes_before;
    auto stage = std::make_shared<const Experiment>(load(request, chain, text));
    if (parent_good && diagnostics_.count() == before_stage) check_stage(bound, *stage, diagnostics_);
    e.stages["reference"] = std::move(stage);
  }

  const DescribePlugin& describe_;
  Diagnostics diagnostics_;
};

}  // namespace

Experiment load_experiment(const LoadRequest& request) {
  Loader loader(request.describe_plugin);
  const std::string text = read_source(request.file, request.file.string());
  const Chain chain{std::filesystem::weakly_canonical(std::filesystem::absolute(request.file))};
  Experiment experiment = loader.load(request, chain, text);
  loader.diagnostics().raise();
  return experiment;
}

}  // namespace wmtp
