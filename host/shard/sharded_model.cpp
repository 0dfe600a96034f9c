#include "shard/sharded_model.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/weight_fingerprint.hpp"
#include "base/work_progress.hpp"
#include "model/model_tensors.hpp"
#include "model/torch/embedding.hpp"
#include "model/torch/ops.hpp"

namespace wmtp {
namespace {

constexpr int64_t elements_per_task = 1 << 16;

/// Elements [begin, begin+count) of a parameter's initial value.
void draw(const ParameterSpec& spec, int64_t seed, int64_t begin, int64_t count, float* out) {
  const Init& init = spec.init;
  if (init.kind == Init::Kind::ones || init.kind == Init::Kind::zeros) {
    std::fill(out, out + count, init.kind == Init::Kind::ones ? 1.0f : 0.0f);
    return;
  }
  const uint64_t key = name_key(spec.name, uint64_t(seed));
  for (int64_t block = begin / 4; block * 4 < begin + count; ++block) {
    const PhiloxBlock bits = philox(key, 0, uint64_t(block));
    float value[4];
    for (int pair = 0; pair < 4; pair += 2) {
      if (init.kind == Init::Kind::uniform) {
        for (int i = pair; i < pair + 2; ++i) value[i] = float((2.0 * unit_float(bits[i]) - 1.0) * init.scale);
        continue;
      }
      const float radius =
          float(init.scale) * std::sqrt(-2.0f * std::log(1.0f - unit_float(bits[pair])));  // Box-Muller
      const float angle = 6.28318530717958648f * unit_float(bits[pair + 1]);
      value[pair] = radius * std::cos(angle);
      value[pair + 1] = radius * std::sin(angle);
    }
    for (int64_t i = std::max(begin, block * 4); i < std::min(begin + count, block * 4 + 4); ++i)
      out[i - begin] = value[i - block * 4];
  }
}

/// The fingerprint of elements [begin, begin + values.size()) of a flattened parameter, using all threads of this rank.
uint64_t parallel_fingerprint(const std::string& name, int64_t begin, std::span<const float> values) {
  std::atomic<uint64_t> sum{0};
  at::parallel_for(0, int64_t(values.size()), elements_per_task, [&](int64_t first, int64_t last) {
    sum += fingerprint(name, begin + first, values.data() + first, last - first);
  });
  return sum;
}

}  // namespace

ShardUnit::ShardUnit(const UnitSpec& spec, const GroupOptions& options, Channels& channels) : name_(spec.name) {
  GroupOptions unit_options = options;
  if (spec.always_fp32) unit_options.param_dtype = unit_options.reduce_dtype = at::kFloat;
  unit_options.is_second_twin = spec.is_second_twin;
  const auto has_piece = [&](const ParameterSpec& parameter) { return is_cut(parameter, channels); };
  const bool has_pieces = std::ranges::any_of(spec.parameters, has_piece);
  for (const bool trains : {true, false})
    for (const bool of_pieces : {false, true}) {
      std::vector<ParameterSpec> parameters;
      for (const ParameterSpec& parameter : spec.parameters)
        if (parameter.trains == trains && has_piece(parameter) == of_pieces) parameters.push_back(parameter);
      if (parameters.empty()) continue;
      GroupOptions group_options = unit_options;
      // In a unit with pieces, whole parameters are small: norms, and factors of an adapter. To gather and reduce them
      // over all ranks for each block and micro-batch would cost only waiting.
      if (has_pieces && !of_pieces && options.strategy != Strategy::no_shard)
        group_options.strategy = Strategy::shard_optimizer;
      if (!trains && options.replicate_frozen) group_options.strategy = Strategy::no_shard;
      groups_.push_back(std::make_unique<ParameterGroup>(name_, std::move(parameters), group_options, channels));
    }
}

bool ShardUnit::holds(const std::string& parameter) const {
  for (const auto& group : groups_)
    for (const FlatParameter& placed : group->parameters())
      if (placed.spec.name == parameter) return true;
  return false;
}
template <class... Args>
void ShardUnit::each(void (ParameterGroup::*call)(Args...), Args... args) {
  for (const auto& group : groups_) (group.get()->*call)(args...);
}
void ShardUnit::start_gather() { each(&ParameterGroup::start_gather); }
void ShardUnit::finish_gather() { each(&ParameterGroup::finish_gather); }
void ShardUnit::release() { each(&ParameterGroup::release); }
void ShardUnit::start_reduce(bool last) { each(&ParameterGroup::start_reduce, last); }
void ShardUnit::finish_reduce() { each(&ParameterGroup::finish_reduce); }
void ShardUnit::finish_replicate_reduce() { each(&ParameterGroup::finish_replicate_reduce); }
void ShardUnit::finish_replicate_gather() { each(&ParameterGroup::finish_replicate_gather); }

ShardedModel::ShardedModel(const ShardedModelRequest& request, Channels& channels)
    : channels_(channels),
      split_(channels.same_sequences_group()),
      config_(*request.spec.model),
      section_(request.section),
      blocks_(section_blocks(config_, wmtp::num_heads(config_, request.spec.heads), section_)),
      whole_(model_units(request.spec)),
      compute_(at::TensorOptions(request.options.param_dtype).device(request.options.device)),
      token_heads_(wmtp::num_heads(config_, request.spec.heads)) {
  const RankGroup &attention = channels.attention_group(), &tensor = channels.tensor_group();
  if (attention.size > 1) attention_.emplace(attention, "heads for positions");
  if (tensor.size > 1) tensor_.emplace(tensor, "positions for features");
  for (const UnitSpec& spec : section_units(whole_, request.spec, section_)) {
    units_.push_back(std::make_unique<ShardUnit>(spec, request.options, channels));
    if (spec.name == adapter_unit_name) adapter_ = units_.back().get();
    for (const auto& group : units_.back()->groups())
      for (size_t i = 0; i < group->parameters().size(); ++i)
        handles_[group->parameters()[i].spec.name] = {group.get(), int(i)};
  }
  if (request.spec.heads != Heads::none && config_.tie_word_embeddings && section_.is_last())
    handles_["output.weight"] = handles_.at("tok_embeddings.weight");
  const bool has_twin =
      section_.count > 1 && (section_.is_first() || section_.is_last()) && heads_read_embedding(config_, token_heads_);
  if (has_twin && backward_extent().trains_embedding()) twins_.emplace(channels.twins(), "the embedding's gradient");
  const FindWeight find = [this](const std::string& name) { return weight(name); };
  for (int64_t i = blocks_.first; i < blocks_.end; ++i)
    trunk_.emplace_back(config_, trunk_block_name(i), find, request.spec.adapter);
  for (int64_t k = 1; section_.is_last() && k <= token_heads_; ++k)
    heads_.emplace_back(config_, head_block_name(config_, k), find, request.spec.adapter);
  if (section_.is_last())
    for (const ValueHead& head : request.spec.value_heads) value_heads_.emplace_back(config_, head, find);
  rotary_ = rotary_table(request.sequence_length, head_dim(config_), config_.rope_theta, request.options.device,
                         config_.rope_scaling);
  for (const char* name : {embedding_weight, output_weight})
    if (handles_.contains(name) && !piece_of(name).is_whole())
      vocabulary_.emplace(tensor, "tokens for parts of the vocabulary");
}

ShardUnit& ShardedModel::unit(const std::string& name) const {
  const bool is_tied = name == "output" && config_.tie_word_embeddings;
  for (const auto& unit : units_)
    if (unit->name() == (is_tied ? "tok_embeddings" : name)) return *unit;
  throw Error(ExitStatus::bug, "model has no unit '" + name + "'");
}

WeightHandle ShardedModel::weight(const std::string& parameter) const {
  const auto found = handles_.find(parameter);
  if (found == handles_.end()) throw Error(ExitStatus::bug, "model has no parameter '" + parameter + "'");
  return found->second;
}

at::Tensor ShardedModel::embedded(const at::Tensor& tokens) const {
  return wmtp::embedded(weight(embedding_weight), tokens, vocabulary());
}

at::Tensor ShardedModel::normed(const at::Tensor& hidden) const {
  return scaled(rms_norm(hidden, weight("norm.weight"), config_.norm_eps), logit_factor(config_));
}

void ShardedModel::initialize(int64_t seed) {
  const auto first_value = [seed](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    if (spec.init.kind == Init::Kind::row_norms) return false;
    at::parallel_for(0, count, elements_per_task, [&](int64_t from, int64_t to) {
      draw(spec, seed, begin + from, to - from, out + from);  // counter-based, so the split into parts does not matter
    });
    return true;
  };
  fill(first_value, "initializing weights");
}

void ShardedModel::fill(const ReadPart& read, const std::string& what) {
  int64_t bytes = 0;
  for (const auto& unit : units_)
    for (const auto& group : unit->groups()) bytes += group->shard_size() * int64_t(sizeof(float));
  WorkProgress progress(what, bytes, WorkProgress::Unit::bytes);
  std::vector<float> values;
  std::set<std::string> norms;
  for (const auto& unit : units_)
    for (const auto& group : unit->groups()) {
      const bool in_base = has_adapter() && !group->trains();
      const auto fill_part = [&](const FlatParameter& placed, int64_t begin, at::Tensor part) {
        const ParameterSpec& spec = placed.spec;
        values.resize(size_t(part.numel()));
        bool was_read = true;
        uint64_t sum = 0;
        placed.piece.for_each_run(begin, part.numel(), [&](int64_t first, int64_t offset, int64_t count) {
          float* const out = values.data() + offset;
          was_read = was_read && read(spec, first, count, out);
          if (was_read && in_base) sum += parallel_fingerprint(spec.name, first, {out, size_t(count)});
        });
        if (was_read) {
          part.copy_(at::from_blob(values.data(), {part.numel()}, at::kFloat));
          if (in_base) fingerprints_[spec.name] = sum;
        } else if (spec.init.kind == Init::Kind::row_norms) {
          norms.insert(spec.name);
        }
        progress.advance(part.numel() * int64_t(sizeof(float)));
      };
      group->change_master([&](const at::Tensor& block, int64_t end) { group->for_each_part(block, end, fill_part); });
    }
  fill_row_norms(norms);
}

void ShardedModel::fill_row_norms(const std::set<std::string>& names) {
  if (!adapter_) return;
  std::map<std::string, at::Tensor> norms;
  for (const auto& unit : units_) {  // every rank gathers every such unit, even if it has no part of the norms
    std::vector<std::string> wanted;
    for (const auto& group : adapter_->groups())
      for (const FlatParameter& placed : group->parameters())
        if (placed.spec.init.kind == Init::Kind::row_norms && unit->holds(adapted_weight(placed.spec.name)))
          wanted.push_back(placed.spec.name);
    if (wanted.empty()) continue;
    const GatherScope weights(*unit);
    for (const std::string& name : wanted)
      if (at::Tensor of_rows = local_row_norms(adapted_weight(name), names.count(name) > 0); of_rows.defined())
        norms[name] = std::move(of_rows);
  }
  const auto fill_part = [&](const FlatParameter& placed, int64_t begin, at::Tensor part) {
    const auto found = norms.find(placed.spec.name);
    if (found != norms.end()) part.copy_(found->second.narrow(0, begin, part.numel()));
  };
  for (const auto& group : adapter_->groups())
    group->change_master([&](const at::Tensor& block, int64_t end) { group->for_each_part(block, end, fill_part); });
}

const ParameterPiece& ShardedModel::piece_of(const std::string& parameter) const {
  const WeightHandle handle = weight(parameter);
  return static_cast<ParameterGroup*>(handle.store)->parameters()[size_t(handle.index)].piece;
}

at::Tensor ShardedModel::local_row_norms(const std::string& parameter, bool wanted) const {
  at::Tensor rows = weight(parameter).weight();
  if (!piece_of(parameter).columns().empty()) rows = tensor_->gathered(rows);
  return wanted ? at::linalg_vector_norm(rows.to(at::kFloat), 2, at::IntArrayRef{1}) : at::Tensor();
}

uint64_t ShardedModel::base_fingerprint() const {
  uint64_t mine = 0;
  for (const auto& unit : units_)
    for (const auto& group : unit->groups())
      if (group->is_first_replica())  // each shard once
        for (const FlatParameter& placed : group->parameters())
          if (const auto found = fingerprints_.find(placed.spec.name); found != fingerprints_.end())
            mine += found->second;
  const at::Tensor all =
      channels_.all()
          .all_gather(at::scalar_tensor(int64_t(mine), at::kLong), "comparing the base model's fingerprint")
          .contiguous();
  uint64_t sum = 0;
  for (int64_t rank = 0; rank < all.numel(); ++rank) sum += uint64_t(all.const_data_ptr<int64_t>()[rank]);
  return sum;
}

void ShardedModel::sum_over_twins() {
  if (!twins_) return;
  for (const auto& group : unit("tok_embeddings").groups()) group->sum_over_twins(*twins_);
}

std::vector<ParameterGroup*> ShardedModel::trained_groups() const {
  std::vector<ParameterGroup*> groups;
  for (const auto& unit : units_)
    for (const auto& group : unit->groups())
      if (group->trains()) groups.push_back(group.get());
  return groups;
}

BackwardExtent ShardedModel::backward_extent() const {
  const auto trains = [this](const std::string& unit) {
    for (const UnitSpec& one : whole_)
      for (const ParameterSpec& spec : one.parameters)
        if (spec.trains && spec.name.starts_with(unit + ".")) return true;
    return false;
  };
  return {config_, token_heads_, trains};
}

}  // namespace wmtp
