#include "shard/parameter_group.hpp"

#include <algorithm>
#include <tuple>

#include "memory/allocator.hpp"
#include "memory/meta_device.hpp"
#include "model/alignment.hpp"
#include "model/torch/matrix_product.hpp"
#include "model/torch/row_ops.hpp"
#include "model/torch/tensor_parallel.hpp"
#include "shard/group_exchange.hpp"

namespace wmtp {
namespace {

using at::Tensor;

std::string name_of(const std::string& unit, bool trains, bool of_pieces) {
  return unit + (of_pieces ? " (pieces)" : "") + (trains ? "" : " (frozen)");
}

auto settings_of(const ParameterSpec& spec) {
  return std::tuple(!spec.orthogonalizes, !spec.decays, spec.lr_scale, spec.weight_decay);
}

}  // namespace

bool is_cut(const ParameterSpec& spec, const Channels& channels) {
  const int ranks = channels.tensor_group().size;
  if (ranks == 1 || spec.cut == ParameterCut::none) return false;
  return (spec.cut == ParameterCut::rows ? spec.shape.front() : spec.shape.back()) % ranks == 0;
}

bool precedes(const ParameterSpec& a, const ParameterSpec& b) {
  const auto settings_a = settings_of(a), settings_b = settings_of(b);
  return settings_a != settings_b ? settings_a < settings_b : a.index < b.index;
}

ParameterGroup::ParameterGroup(std::string unit, std::vector<ParameterSpec> parameters, const GroupOptions& options,
                               Channels& channels)
    : unit_(std::move(unit)),
      name_(name_of(unit_, parameters.front().trains, is_cut(parameters.front(), channels))),
      options_(options),
      tensor_(is_cut(parameters.front(), channels) ? channels.tensor_group() : RankGroup()),
      mesh_(channels.mesh(int(shard_group_ranks(options.strategy, options.shard_group_size, channels.size())),
                          tensor_.size > 1)),
      trains_(parameters.front().trains),
      is_offloaded_(is_offloaded(options.offload, trains_)),
      is_in_file_(options.masters_in_file && trains_ && options.param_dtype != at::kFloat) {
  std::ranges::stable_sort(parameters, precedes);
  for (ParameterSpec& spec : parameters) {
    TORCH_CHECK(spec.trains == trains_, "group ", name_, " mixes trained and frozen parameters");
    TORCH_CHECK(is_cut(spec, channels) == (tensor_.size > 1), "group ", name_, " mixes whole and cut parameters");
    const ParameterPiece piece(spec.shape, spec.cut, tensor_.rank, tensor_.size);
    parameters_.push_back({std::move(spec), piece, total_, piece.count()});
    total_ += round_up(piece.count(), alignment);
  }
  total_ = round_up(total_, alignment * channels.size() / tensor_.size);
  shard_size_ = total_ / mesh_.shard.size;
  shard_begin_ = shard_size_ * mesh_.shard.rank;
  written_.assign(parameters_.size(), false);

  const MemoryScope scope(MemoryCategory::parameters);
  const at::ScalarType dtype = trains_ ? at::kFloat : options_.param_dtype;
  const auto zeros = [&](at::ScalarType type) {
    return is_offloaded_ ? host_zeros(shard_size_, type, options_.device)
                         : at::zeros({shard_size_}, at::TensorOptions(type).device(options_.device));
  };
  if (!is_in_file_) master_ = zeros(dtype);
  if (is_in_file_ || (is_offloaded_ && options_.param_dtype != dtype)) staged_ = zeros(options_.param_dtype);
}

const Tensor& ParameterGroup::master() const {
  TORCH_CHECK(!is_in_file_, "group ", name_, ": its master is in a file");
  return master_;
}

/// This rank's shard in the compute dtype on the device; the master itself if it already has that form.
Tensor ParameterGroup::shard_on_device() {
  const at::TensorOptions there = at::TensorOptions(options_.param_dtype).device(options_.device);
  if (!is_offloaded_) return is_in_file_ ? staged_ : master_.to(there);
  if (!staged_.defined()) return copied_to_device(master_, there);
  if (!is_in_file_ && !staged_is_current_) staged_.copy_(master_);
  staged_is_current_ = true;
  return copied_to_device(staged_, there);
}

void ParameterGroup::start_gather() {
  if (weights_.defined() || gather_) return;
  const MemoryScope scope(MemoryCategory::gathered);
  Tensor shard = shard_on_device();
  if (!shards()) {
    weights_ = std::move(shard);
    return;
  }
  gathering_ = at::empty({total_}, shard.options());
  gather_ = mesh_.shard.gather_channel->all_gather(gathering_, std::move(shard), "gathering " + name_);
}

void ParameterGroup::finish_gather() {
  if (weights_.defined()) return;
  start_gather();
  if (!gather_) return;
  gather_.wait();
  weights_ = std::move(gathering_);
}

void ParameterGroup::release() {
  const bool is_streamed = is_offloaded_ && !trains_;
  if (is_streamed || (shards() && !keeps_gathered(options_.strategy))) weights_.reset();
}

void ParameterGroup::master_changed() {
  TORCH_CHECK(!gather_, "group ", name_, ": its master changed during a gather");
  weights_.reset();
  staged_is_current_ = false;
}

void ParameterGroup::block_changed(const Tensor& block, int64_t end) {
  if (is_in_file_) staged_.narrow(0, end - block.numel(), block.numel()).copy_(block);
  if (end == shard_size_) master_changed();
}

void ParameterGroup::change_master(const VisitMaster& visit) {
  const auto change = [&](const Tensor& block, int64_t end) {
    visit(block, end);
    block_changed(block, end);
  };
  if (!is_in_file_) return change(master_, shard_size_);
  TORCH_CHECK(visit_file_, "group ", name_, " has values before the optimizer that keeps them in a file");
  visit_file_(/*changes=*/true, change);
}

/// The master, from a file as a copy on the device.
Tensor ParameterGroup::read_master() const {
  if (!is_in_file_) return master_;
  Tensor values = at::empty({shard_size_}, at::TensorOptions(at::kFloat).device(options_.device));
  visit_file_(/*changes=*/false, [&](const Tensor& block, int64_t end) {
    values.narrow(0, end - block.numel(), block.numel()).copy_(block);
  });
  return values;
}

Tensor ParameterGroup::weight(int index) {
  TORCH_CHECK(weights_.defined(), "group ", name_, " is used before it is gathered");
  const FlatParameter& placed = parameters_[size_t(index)];
  return weights_.narrow(0, placed.offset, placed.count).view(placed.piece.shape());
}

Tensor& ParameterGroup::gradient_buffer() {
  if (!whole_gradient_.defined()) {
    const MemoryScope scope(MemoryCategory::gradients);
    whole_gradient_ = at::empty({total_}, at::TensorOptions(at::kFloat).device(options_.device));
    std::fill(written_.begin(), written_.end(), false);
  }
  return whole_gradient_;
}

Tensor ParameterGroup::gradient_view(int index, bool& first) {
  const FlatParameter& placed = parameters_[size_t(index)];
  Tensor view = gradient_buffer().narrow(0, placed.offset, placed.count).view(placed.piece.shape());
  first = !written_[size_t(index)];
  written_[size_t(index)] = true;
  return view;
}

void ParameterGroup::add_product(int index, const Tensor& left, const Tensor& right) {
  bool first = false;
  Tensor gradient = gradient_view(index, first);
  if (sums_in_fp32(left))
    product_into(gradient, left.t(), right, !first);
  else
    accumulate(gradient, product(left.t(), right), first);
}

void ParameterGroup::add_gradient(int index, const Tensor& value) {
  bool first = false;
  Tensor gradient = gradient_view(index, first);
  accumulate(gradient, value, first);
}

void ParameterGroup::add_rows(int index, const Tensor& rows, const Tensor& values) {
  bool first = false;
  Tensor gradient = gradient_view(index, first);
  if (first) gradient.zero_();
  gradient.index_add_(0, rows, values.to(at::kFloat));
}

/// Zeroes parameters without a gradient, and the padding.
void ParameterGroup::zero_unwritten() {
  gradient_buffer();  // a rank without any gradient also takes part in the reduce
  int64_t end = 0;    // of the last parameter that has a gradient
  const auto zero_up_to = [&](int64_t begin) {
    if (begin > end) whole_gradient_.narrow(0, end, begin - end).zero_();
  };
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!written_[i]) continue;
    zero_up_to(parameters_[i].offset);
    end = parameters_[i].offset + parameters_[i].count;
  }
  zero_up_to(total_);
}

void ParameterGroup::start_reduce(bool last) {
  TORCH_CHECK(!reduce_ && !replicate_reduce_ && !replicate_gather_, "group ", name_, ": a reduce is in flight");
  if (!trains_) return;
  if (reduces_once_per_step() && !is_alone() && !last) return;
  last_ = last;
  zero_unwritten();
  if (is_alone()) return;
  const MemoryScope scope(MemoryCategory::communication);
  const Tensor mine = whole_gradient_.to(options_.reduce_dtype);  // not a copy if sent in fp32
  reduce_output_ = at::empty_like(mine);
  const RankGroup& axis = shards() ? mesh_.shard : mesh_.replicate;
  reduce_ = axis.reduce_channel->all_to_all(reduce_output_, mine, "reducing the gradient of " + name_);
  if (shards()) whole_gradient_.reset();
}

void ParameterGroup::finish_reduce() {
  if (is_alone() && whole_gradient_.defined()) add_to_gradient(std::move(whole_gradient_));
  if (!reduce_) return;
  reduce_.wait();
  if (shards()) {
    add_reduced(reduce_output_.view({mesh_.shard.size, -1}));
  } else {
    gradient_ = std::move(whole_gradient_);
    start_replicate_gather(reduce_output_);
  }
  reduce_output_.reset();
  if (shards() && last_) start_replicate_reduce();
}

void ParameterGroup::start_replicate_reduce() {
  if (mesh_.replicate.size == 1) return;
  const MemoryScope scope(MemoryCategory::communication);
  const Tensor mine = gradient_.to(options_.reduce_dtype);
  replicate_reduce_output_ = at::empty_like(mine);
  replicate_reduce_ =
      mesh_.replicate.reduce_channel->all_to_all(replicate_reduce_output_, mine, "summing the gradient of " + name_);
}

void ParameterGroup::finish_replicate_reduce() {
  if (!shards()) finish_replicate_gather();  // started by finish_reduce
  if (!replicate_reduce_) return;
  replicate_reduce_.wait();
  start_replicate_gather(replicate_reduce_output_);
  replicate_reduce_output_.reset();
}

/// Sums this rank's part of the replicate group's gradients, and gathers the sums of its ranks into the gradient.
void ParameterGroup::start_replicate_gather(const Tensor& arrived) {
  const MemoryScope scope(MemoryCategory::communication);
  const RankGroup& axis = mesh_.replicate;
  const int64_t part = gradient_.numel() / axis.size;
  const bool is_in_place = options_.reduce_dtype == at::kFloat;
  Tensor sum = is_in_place ? gradient_.narrow(0, axis.rank * part, part) : at::empty({part}, gradient_.options());
  sum_of_parts(arrived.view({axis.size, part}), sum);
  sums_ = is_in_place ? gradient_ : at::empty(gradient_.sizes(), arrived.options());
  replicate_gather_ =
      axis.reduce_channel->all_gather(sums_, sum.to(options_.reduce_dtype), "summing the gradient of " + name_);
}

void ParameterGroup::finish_replicate_gather() {
  if (!replicate_gather_) return;
  replicate_gather_.wait();
  if (!sums_.is_same(gradient_)) gradient_.copy_(sums_);
  sums_.reset();
}

void ParameterGroup::add_reduced(const Tensor& parts) {
  const MemoryScope scope(MemoryCategory::gradients);
  const auto empty = [&] { return at::empty({parts.size(1)}, parts.options().dtype(at::kFloat)); };
  if (!gradient_.defined()) {
    gradient_ = empty();
    return sum_of_parts(parts, gradient_);
  }
  Tensor sum = parts.scalar_type() == at::kFloat ? parts[0] : empty();
  sum_of_parts(parts, sum);
  gradient_.add_(sum);
}

void ParameterGroup::add_to_gradient(Tensor sum) {
  if (gradient_.defined())
    gradient_.add_(sum);
  else
    gradient_ = std::move(sum);
}

void ParameterGroup::sum_over_twins(const RankExchange& twins) {
  if (!trains_) return;
  const MemoryScope scope(MemoryCategory::communication);
  Tensor parts = gradient_.view({twins.ranks(), -1});
  parts.copy_(twins.all_gather(reduce_scatter(parts, twins)));
}

void ParameterGroup::drop_gradient() {
  gradient_.reset();
  whole_gradient_.reset();
}

std::vector<Segment> ParameterGroup::segments() const {
  std::vector<Segment> segments;
  for (size_t i = 0; i < parameters_.size(); ++i) {  // padding counts as part of the preceding parameter
    const int64_t next = i + 1 < parameters_.size() ? parameters_[i + 1].offset : total_;
    const int64_t begin = std::max(parameters_[i].offset - shard_begin_, int64_t{0});
    const int64_t end = std::min(next - shard_begin_, shard_size_);
    if (begin >= end) continue;
    const ParameterSpec& spec = parameters_[i].spec;
    if (!segments.empty() && settings_of(parameters_[i - 1].spec) == settings_of(spec))
      segments.back().end = end;
    else
      segments.push_back({begin, end, spec.orthogonalizes, spec.decays, spec.lr_scale, spec.weight_decay});
  }
  return segments;
}

Tensor ParameterGroup::gather_master() { return shards() ? gather_shards(read_master()) : read_master(); }

Tensor ParameterGroup::gather_shards(const Tensor& values) {
  Tensor sent = values.to(options_.device);
  if (!shards()) return sent;
  Tensor whole = at::empty({total_}, sent.options());
  mesh_.shard.gather_channel->all_gather(whole, sent, "gathering " + name_).wait();
  return whole;
}

Tensor ParameterGroup::gather_pieces(const Tensor& flat) {
  if (tensor_.size == 1) return flat.unsqueeze(0);
  const Tensor sent = flat.to(options_.device);
  return GroupExchange(tensor_, "pieces of " + unit_).all_gather(sent);
}

Tensor ParameterGroup::joined(const FlatParameter& placed, const Tensor& pieces) {
  std::vector<Tensor> all;
  for (const Tensor& flat : pieces.unbind())
    all.push_back(flat.narrow(0, placed.offset, placed.count).view(placed.piece.shape()));
  return all.size() == 1 ? all.front() : at::cat(all, placed.piece.dimension());
}

}  // namespace wmtp
