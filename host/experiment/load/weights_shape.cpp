// The shape of a model that begins with weights whose folder states one. The folder's number of heads counts as its
// future_tokens; heads that the experiment adds or leaves out change the number of layers, and nothing else.
#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "experiment/load/rules.hpp"
#include "experiment/model_config.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

class WeightsShape {
 public:
  WeightsShape(BoundExperiment& bound, const ModelConfig& theirs, Diagnostics& diagnostics)
      : bound_(bound), ours_(bound.experiment.model), theirs_(theirs), diagnostics_(diagnostics) {}

  void fill() {
    heads();
    offsets();
    layers();
    take("dim", ours_.dim, theirs_.dim);
    take("heads", ours_.heads, theirs_.heads);
    take("kv_heads", ours_.kv_heads, theirs_.kv_heads);
    if (theirs_.ffn_dim > 0) take("ffn_dim", ours_.ffn_dim, theirs_.ffn_dim);
    if (theirs_.vocab_size > 0) take("vocab_size", ours_.vocab_size, theirs_.vocab_size);
    head_width();
    for (const ShapeOption& option : shape_options)
      std::visit([&](auto member) { take_option(option, ours_.*member, theirs_.*member); }, option.member);
    const int64_t longest = std::max(theirs_.max_sequence_length, bound_.experiment.train.sequence_length);
    take_unless_given("max_sequence_length", ours_.max_sequence_length, longest);
    take_unless_given("rope_theta", ours_.rope_theta, theirs_.rope_theta);
    take_unless_given("rope_scaling", ours_.rope_scaling, theirs_.rope_scaling);
    take_unless_given("norm_eps", ours_.norm_eps, theirs_.norm_eps);
  }

 private:
  static std::string path(const std::string& key) { return key_path("model", key); }
  bool given(const std::string& key) const { return bound_.has(path(key)); }
  bool good(const std::string& key) const { return bound_.invalid_keys.count(path(key)) == 0; }

  /// new_heads adds heads to a model with one, as many as future_tokens is without weights.
  void heads() {
    const bool adds = theirs_.future_tokens == 1 && !ours_.new_heads.empty();
    if (!adds) take_unless_given("future_tokens", ours_.future_tokens, theirs_.future_tokens);
    if (theirs_.future_tokens > 1 && ours_.future_tokens > 1)
      take_unless_given("future_heads", ours_.future_heads, theirs_.future_heads);
  }

  /// Those of the heads that the model keeps.
  void offsets() {
    if (given("future_offsets") || theirs_.future_offsets.empty() || !good("future_tokens")) return;
    if (ours_.future_tokens > theirs_.future_tokens)
      return diagnostics_.add(bound_.position(path("future_tokens")),
                              "found " + std::to_string(ours_.future_tokens) + " future_tokens for " + weights() +
                                  ", whose heads have future_offsets " +
                                  offsets_text(theirs_.future_offsets, theirs_.future_tokens),
                              "set future_offsets, one for each");
    std::vector<int64_t> kept = theirs_.future_offsets;
    kept.resize(size_t(ours_.future_tokens));
    take_unless_given("future_offsets", ours_.future_offsets, kept);
  }

  void layers() {
    if (!good("future_tokens")) return;
    const int64_t trunk = num_trunk_blocks(theirs_), wanted = trunk + ours_.future_tokens;
    if (given("layers") && good("layers") && ours_.layers != wanted)
      refuse("layers", "found layers " + std::to_string(ours_.layers) + ", wanted " + std::to_string(wanted) + ": " +
                           std::to_string(trunk) + " trunk blocks as in " + weights() + ", and one for each of " +
                           counted(ours_.future_tokens, "future token"));
    take_unless_given("layers", ours_.layers, wanted);
  }

  /// Neither states the width if it is the quotient.
  void head_width() {
    const bool differs = given("head_dim") && theirs_.heads > 0 && ours_.head_dim != head_dim(theirs_);
    if (differs && good("head_dim"))
      refuse("head_dim", "found head_dim " + std::to_string(ours_.head_dim) + ", wanted " +
                             std::to_string(head_dim(theirs_)) + " as in " + weights());
  }

  template <class T>
  void take_option(const ShapeOption& option, T& ours, const T& theirs) {
    option.must_match_weights ? take(option.name, ours, theirs) : take_unless_given(option.name, ours, theirs);
  }

  template <class T>
  void take(const std::string& key, T& ours, const T& theirs) {
    if (given(key) && good(key) && ours != theirs)
      refuse(key, "found " + key + " " + toml_text(ours) + ", wanted " + toml_text(theirs) + " as in " + weights());
    take_unless_given(key, ours, theirs);
  }

  template <class T>
  void take_unless_given(const std::string& key, T& ours, const T& theirs) {
    if (given(key)) return;
    ours = theirs;
    bound_.experiment.origins[path(key)] = "weights";
  }

  std::string weights() const { return "the weights " + quote(ours_.weights); }

  void refuse(const std::string& key, const std::string& message) {
    diagnostics_.add(bound_.position(path(key)), message, "remove the key: its value is taken from the weights");
    bound_.invalid_keys.insert(path(key));
  }

  BoundExperiment& bound_;
  ModelConfig& ours_;
  const ModelConfig& theirs_;
  Diagnostics& diagnostics_;
};

}  // namespace

void fill_shape(BoundExperiment& bound, const std::optional<ModelConfig>& shape, Diagnostics& diagnostics) {
  if (shape) return WeightsShape(bound, *shape, diagnostics).fill();
  std::vector<std::string> missing;
  for (const char* key : {"dim", "layers", "heads"})
    if (!bound.has(key_path("model", key))) missing.emplace_back(key);
  for (const std::string& key : missing) bound.invalid_keys.insert(key_path("model", key));
  if (!missing.empty())
    diagnostics.add(bound.keys.at("model"), "[model] lacks " + join_names(missing),
                    "only a folder of weights with a config.json (Hugging Face) or params.json (Meta) states them: "
                    "found weights = " +
                        quote(bound.experiment.model.weights));
}

}  // namespace wmtp
