#include "model/torch/parameter_layout.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr double base_init_std = 0.02;
constexpr const char* parameter_name_examples = "names are like tok_embeddings.weight and layers.0.attention.wq.weight";

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

/// The residual stream sums 2 * layers outputs of wo and w2; scaling them keeps its variance independent of depth.
double init_std(const ModelTensor& tensor, const ModelConfig& model) {
  return tensor.writes_residual ? base_init_std / std::sqrt(2.0 * double(model.layers)) : base_init_std;
}

Init adapter_init(const Param& param) {
  if (param.init == Param::Init::uniform) return {Init::Kind::uniform, param.bound};
  return {param.init == Param::Init::row_norms ? Init::Kind::row_norms : Init::Kind::zeros, 0};
}

class Builder {
 public:
  explicit Builder(const ModelSpec& model_spec) : model_spec_(model_spec), model_(*model_spec.model) {}

  std::vector<UnitSpec> build() {
    for (const ModelTensor& tensor : model_tensors(model_))
      if (tensor.head <= num_heads(model_, model_spec_.heads)) add(tensor);
    value_heads();
    declare();
    if (!adapter_.empty()) units_.push_back({adapter_unit_name, std::move(adapter_)});
    if (!model_spec_.adapter) return std::move(units_);
    check_names();
    apply_groups();
    check_optimizer();
    return std::move(units_);
  }

 private:
  void add(const ModelTensor& tensor) {
    using Kind = ModelTensor::Kind;
    const std::string unit = tensor.unit();
    if (units_.empty() || units_.back().name != unit) units_.push_back({unit, {}});
    ParameterSpec spec;
    spec.name = tensor.name;
    spec.shape = tensor.shape;
    spec.cut = tensor.cut;
    spec.trains = trains(model_spec_, tensor.name);
    spec.decays = tensor.shape.size() == 2 || model_spec_.optimizer.decay_norms;
    spec.orthogonalizes = traits_of(model_spec_.optimizer.kind).orthogonalizes && tensor.kind == Kind::linear;
    if (tensor.shape.size() == 2) spec.init = {Init::Kind::normal, init_std(tensor, model_)};
    if (tensor.kind == Kind::norm) spec.init = {Init::Kind::ones};
    units_.back().parameters.push_back(std::move(spec));
    if (tensor.kind == Kind::linear)
      linears_.push_back(
          {{tensor.name.substr(0, tensor.name.rfind('.')), tensor.shape[1], tensor.shape[0]}, tensor.cut});
  }

  void check_names() const {
    for (const std::string& pattern : model_spec_.trained_parts.names) {
      const auto is_named = [&](const ParameterSpec& spec) { return matches(pattern, spec.name); };
      if (std::none_of(units_.begin(), units_.end(), [&](const UnitSpec& unit) {
            return std::any_of(unit.parameters.begin(), unit.parameters.end(), is_named);
          }))
        throw Error(ExitStatus::usage,
                    "[adapter] train: " + printable(pattern) + " matches no parameter; " + parameter_name_examples);
    }
  }

  void apply_groups() {
    const std::vector<OptimizerGroup>& groups = model_spec_.optimizer.groups;
    std::vector<bool> matched(groups.size(), false);
    for (UnitSpec& unit : units_)
      for (ParameterSpec& spec : unit.parameters) {
        const auto group = std::find_if(groups.begin(), groups.end(), [&](const OptimizerGroup& one) {
          return spec.trains && matches(one.match, spec.name);
        });
        if (group == groups.end()) continue;
        matched[size_t(group - groups.begin())] = true;
        spec.lr_scale *= group->lr_scale;
        spec.weight_decay = group->weight_decay;
      }
    for (size_t i = 0; i < groups.size(); ++i)
      if (!matched[i])
        throw Error(ExitStatus::usage, "[[optimizer.groups]] match = " + printable(groups[i].match) +
                                           " matches no trained parameter, or only those of tables above it; " +
                                           parameter_name_examples);
  }

  /// Without a matrix of its own, Muon would be AdamW, and its momentum would have no effect.
  void check_optimizer() const {
    const auto is_updated = [](const ParameterSpec& spec) { return spec.trains && spec.orthogonalizes; };
    if (traits_of(model_spec_.optimizer.kind).orthogonalizes &&
        std::none_of(units_.begin(), units_.end(), [&](const UnitSpec& unit) {
          return std::any_of(unit.parameters.begin(), unit.parameters.end(), is_updated);
        }))
      throw Error(ExitStatus::usage,
                  "[optimizer] name = " + quote(to_string(model_spec_.optimizer.kind)) +
                      ": the adapter trains no matrix of a block, and AdamW would update all that "
                      "it trains; set name = \"adamw\" without momentum, or train more of the model");
  }

  void declare() {
    std::vector<Linear> layers;
    for (const auto& [linear, cut] : linears_) layers.push_back(linear);
    if (const auto* const adds = dynamic_cast<const LinearAdapter*>(model_spec_.adapter)) adds->check(layers);
    std::vector<std::string> adapted;
    for (const auto& [linear, cut] : linears_) {
      const std::vector<Param> params = declared(model_spec_.adapter, linear);
      if (!params.empty()) adapted.push_back(linear.name + ".weight");
      for (const Param& param : params)
        adapter_.push_back({.name = linear.name + "." + param.name,
                            .shape = param.shape,
                            .init = adapter_init(param),
                            .decays = param.decays,
                            .trains = true,
                            .lr_scale = param.lr_scale,
                            .cut = cut_of(param, cut)});
    }
    if (model_spec_.trained_parts.given()) check_adapted(std::move(adapted));
  }

  /// A weight either trains or is adapted. An adapter that does both itself knows what it does.
  void check_adapted(std::vector<std::string> weights) const {
    std::erase_if(weights, [&](const std::string& weight) { return !trains(model_spec_, weight); });
    if (weights.empty()) return;
    constexpr size_t most_named = 8;
    if (const size_t all = weights.size(); all > most_named) {
      weights.resize(most_named);
      weights.push_back(std::to_string(all - most_named) + " more");
    }
    throw Error(ExitStatus::usage,
                "[adapter] train and train_last choose parameters that the adapter changes already: " +
                    join_names(weights) + "; choose others, or let the adapter leave these layers alone");
  }

  void value_heads() {
    if (model_spec_.value_heads.empty()) return;
    std::vector<ParameterSpec> parameters;
    for (const ValueHead& head : model_spec_.value_heads) {
      const std::vector<Linear> head_linears = value_head_linears(model_, head);
      for (const Linear& linear : head_linears) {
        // The last layer is zero, so that a head's initial values are zero; the others are like torch's Linear.
        const Init init = linear.name == head_linears.back().name
                              ? Init{}
                              : Init{Init::Kind::uniform, 1 / std::sqrt(double(linear.in))};
        const bool trains = model_spec_.adapter != nullptr;
        const OptimizerConfig& optimizer = model_spec_.optimizer;
        const double lr_scale = optimizer.value_head_lr > 0 ? optimizer.value_head_lr / optimizer.lr : 1;
        parameters.push_back({linear.name + ".weight", {linear.out, linear.in}, init, true, trains, lr_scale});
        parameters.push_back({linear.name + ".bias", {1, linear.out}, init, false, trains, lr_scale});
      }
    }
    units_.push_back({value_heads_unit_name, std::move(parameters), /*always_fp32=*/true});
  }

  const ModelSpec& model_spec_;
  const ModelConfig& model_;
  std::vector<UnitSpec> units_;
  std::vector<std::pair<Linear, ParameterCut>> linears_;
  std::vector<ParameterSpec> adapter_;
};

}  // namespace

int64_t ParameterSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<Param> declared(const Adapter* adapter, const Linear& layer) {
  const auto* const adds = dynamic_cast<const LinearAdapter*>(adapter);
  return adds ? adds->declare(layer) : std::vector<Param>();
}

ParameterCut cut_of(const Param& param, ParameterCut layer) {
  if (layer == ParameterCut::none) return layer;
  const Cut cut = layer == ParameterCut::rows ? Cut::out : Cut::in;
  return param.rows == cut ? ParameterCut::rows : param.columns == cut ? ParameterCut::columns : ParameterCut::none;
}

std::string adapted_weight(const std::string& adapter_parameter) {
  return adapter_parameter.substr(0, adapter_parameter.rfind('.')) + ".weight";
}

std::vector<Linear> block_linears(const ModelConfig& model, const std::string& block) {
  std::vector<Linear> linears;
  for (const BlockLayer& layer : block_layers(model, block))
    if (layer.is_linear()) linears.push_back({block + "." + std::string(layer.name), layer.in, layer.out});
  return linears;
}

std::vector<Linear> value_head_linears(const ModelConfig& model, const ValueHead& head) {
  std::vector<int64_t> widths{model.dim};
  if (head.kind == "mlp")
    for (const int64_t part : {4, 8}) widths.push_back(std::max<int64_t>(1, model.dim / part));
  else if (head.kind != "linear")
    throw Error(ExitStatus::plugin,
                "value head '" + head.name + "': kind '" + head.kind + "' is unknown; available are linear and mlp");
  widths.push_back(1);
  std::vector<Linear> head_linears;
  for (size_t i = 0; i + 1 < widths.size(); ++i)
    head_linears.push_back({"value_heads." + head.name + "." + std::to_string(i), widths[i], widths[i + 1]});
  return head_linears;
}

int64_t num_heads(const ModelConfig& model, Heads heads) {
  return heads == Heads::all ? model.future_tokens : int64_t(heads);
}

bool trains(const ModelSpec& model_spec, const std::string& parameter) {
  const TrainedParts& parts = model_spec.trained_parts;
  if (!model_spec.adapter) return false;
  if (!parts.given()) return model_spec.adapter->trains(parameter);
  std::vector<std::string> blocks = block_names(*model_spec.model);
  const int64_t heads = num_heads(*model_spec.model, model_spec.heads);
  blocks.resize(size_t(num_trunk_blocks(*model_spec.model) + num_head_blocks(*model_spec.model, heads)));
  const auto last = blocks.end() - std::min(parts.last_blocks, int64_t(blocks.size()));
  return std::any_of(last, blocks.end(),
                     [&](const std::string& block) { return parameter.starts_with(block + "."); }) ||
         std::any_of(parts.names.begin(), parts.names.end(),
                     [&](const std::string& pattern) { return matches(pattern, parameter); });
}

int64_t section_with(const ModelConfig& model, int64_t heads, int64_t sections, const std::string& unit) {
  if (unit == "tok_embeddings") return heads_read_embedding(model, heads) ? sections - 1 : 0;
  for (int64_t section = 0; section < sections; ++section) {
    const BlockRange blocks = section_blocks(model, heads, {section, sections});
    for (int64_t i = blocks.first; i < blocks.end; ++i)
      if (unit == trunk_block_name(i)) return section;
  }
  return sections - 1;
}

std::vector<UnitSpec> section_units(std::vector<UnitSpec> whole, const ModelSpec& model_spec, const Section& section) {
  if (section.count == 1) return whole;
  const int64_t heads = num_heads(*model_spec.model, model_spec.heads);
  const auto is_elsewhere = [&](const std::string& unit) {
    return section_with(*model_spec.model, heads, section.count, unit) != section.index;
  };
  for (UnitSpec& unit : whole) {
    unit.is_second_twin = section.is_first() && unit.name == "tok_embeddings" && is_elsewhere(unit.name);
    if (unit.is_second_twin) continue;
    std::erase_if(unit.parameters, [&](const ParameterSpec& spec) { return is_elsewhere(unit_of(spec.name)); });
  }
  std::erase_if(whole, [](const UnitSpec& unit) { return unit.parameters.empty(); });
  return whole;
}

std::vector<UnitSpec> model_units(const ModelSpec& model_spec) {
  std::vector<UnitSpec> units = Builder(model_spec).build();
  for (UnitSpec& unit : units)
    for (size_t i = 0; i < unit.parameters.size(); ++i) unit.parameters[i].index = int64_t(i);
  return units;
}

}  // namespace wmtp
