// The parameters of a run (those of model/model_tensors.hpp, of value heads and of the adapter) with their
// initialization and whether they train, in the units that are gathered and reduced together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <wmtp/adapter.hpp>
#include <wmtp/pipeline.hpp>

#include "model/model_tensors.hpp"
#include "model/sections.hpp"

namespace wmtp {

/// How a parameter is initialized without a file: drawn by (seed, name, element), so it is the same in every layout.
struct Init {
  /// row_norms: norms of the rows of the weight that it belongs to (Param::Init), wherever that weight comes from.
  enum class Kind { normal, uniform, ones, zeros, row_norms } kind = Kind::zeros;
  double scale = 0;  ///< normal: standard deviation; uniform: bound
};

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  Init init;
  bool decays = false;  ///< whether weight decay applies
  bool trains = false;
  double lr_scale = 1;                      ///< factor of the optimizer's learning rate
  std::optional<double> weight_decay = {};  ///< instead of the optimizer's
  bool orthogonalizes = false;              ///< whether Muon updates it
  ParameterCut cut = ParameterCut::none;    ///< by tensor parallelism
  int64_t index = 0;                        ///< in its unit
  int64_t count() const;
};

struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  bool always_fp32 = false;     ///< computed in fp32 in any precision
  bool is_second_twin = false;  ///< another section holds the unit, too, where it counts and is saved
};

/// Token heads on the trunk: all, or a number of the first ones. A frozen reference needs only those that are read; a
/// value model needs neither heads nor output.
enum class Heads : int64_t { all = -1, none = 0, first = 1 };
inline Heads first_heads(int64_t count) { return Heads(count); }

/// The parts that a model has, and which of them train.
struct ModelSpec {
  const ModelConfig* model = nullptr;
  Heads heads = Heads::all;
  const Adapter* adapter = nullptr;  ///< null: nothing trains
  std::vector<ValueHead> value_heads;
  OptimizerConfig optimizer = {};  ///< settings that differ between parameters
  TrainedParts trained_parts = {};
};

/// Units in the order of the forward pass: tok_embeddings, trunk blocks, heads, norm, output, value heads, adapter.
/// With tied embeddings there is no unit output: "tok_embeddings.weight" serves as both.
std::vector<UnitSpec> model_units(const ModelSpec& model_spec);
/// The section with a unit of the model; of twins the one that counts: the last, in which rank 0 is. `heads`: token
/// heads.
int64_t section_with(const ModelConfig& model, int64_t heads, int64_t sections, const std::string& unit);
/// The units of a section, of those of the whole model; of the unit adapter the parameters for layers in it.
std::vector<UnitSpec> section_units(std::vector<UnitSpec> whole, const ModelSpec& model_spec, const Section& section);

int64_t num_heads(const ModelConfig& model, Heads heads);
/// Whether a parameter of the model itself trains.
bool trains(const ModelSpec& model_spec, const std::string& parameter);

/// The weight that an adapter's parameter modifies: "layers.0.attention.wq.weight" for "layers.0.attention.wq.lora_A".
std::string adapted_weight(const std::string& adapter_parameter);
/// Parameters that `adapter` adds to a layer; empty if it is null or not a LinearAdapter.
std::vector<Param> declared(const Adapter* adapter, const Linear& layer);
/// How tensor parallelism cuts an adapter's parameter: where it follows the dimension by which its layer is cut.
ParameterCut cut_of(const Param& param, ParameterCut layer);
/// The linear layers of a block, in Meta's names.
std::vector<Linear> block_linears(const ModelConfig& model, const std::string& block);
/// The layers of a value head: "value_heads.NAME.0.weight" [out,in] and ".bias" [1,out], and so on. Error(plugin) for
/// an unknown kind.
std::vector<Linear> value_head_linears(const ModelConfig& model, const ValueHead& head);

}  // namespace wmtp
