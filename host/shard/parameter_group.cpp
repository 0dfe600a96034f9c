#include "shard/parameter_group.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "memory/allocator.hpp"
#include "model/kernels/tensors.hpp"
#include "shard/alignment.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// sum (fp32, contiguous) = value, or += value.
void accumulate(Tensor& sum, const Tensor& value, bool first) {
  if (!kernels::takes(value) || !value.is_contiguous()) {
    if (first)
      sum.copy_(value);
    else
      sum.add_(value);
    return;
  }
  kernels::by_type(value, [&]<class T>() {
    at::parallel_for(0, value.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      kernels::rows<T>().accumulate(kernels::out<float>(sum) + begin, kernels::in<T>(value) + begin, first,
                                    end - begin);
    });
  });
}

}  // namespace

ParameterGroup::ParameterGroup(std::string name, std::vector<ParameterSpec> parameters, const GroupOptions& options,
                               Channels& channels)
    : name_(std::move(name)), options_(options), channels_(channels), trains_(parameters.front().trains) {
  std::stable_sort(parameters.begin(), parameters.end(), [](const ParameterSpec& a, const ParameterSpec& b) {
    return a.decays != b.decays ? a.decays : a.lr_scale < b.lr_scale;
  });
  for (ParameterSpec& spec : parameters) {
    TORCH_CHECK(spec.trains == trains_, "group ", name_, " mixes trained and frozen parameters");
    const int64_t count = spec.count();
    parameters_.push_back({std::move(spec), total_, count});
    total_ += round_up(count, alignment);
  }
  total_ = round_up(total_, alignment * channels_.size());
  shard_size_ = shards() ? total_ / channels_.size() : total_;
  shard_begin_ = shards() ? shard_size_ * channels_.rank() : 0;
  written_.assign(parameters_.size(), false);

  const MemoryScope scope(MemoryCategory::parameters);
  master_ =
      at::zeros({shard_size_}, at::TensorOptions(trains_ ? at::kFloat : options_.compute).device(options_.device));
}

void ParameterGroup::start_gather() {
  if (weights_.defined() || gather_) return;
  const MemoryScope scope(MemoryCategory::gathered);
  Tensor shard = master_.to(options_.compute);  // the master itself when the dtype is the same
  if (!shards()) {
    weights_ = std::move(shard);
    return;
  }
  gathering_ = at::empty({total_}, shard.options());
  gather_ = channels_.gather().all_gather(gathering_, std::move(shard), "gathering " + name_);
}

void ParameterGroup::ready() {
  if (weights_.defined()) return;
  start_gather();
  if (!gather_) return;
  gather_.wait();
  weights_ = std::move(gathering_);
}

void ParameterGroup::release() {
  if (options_.strategy == Strategy::full_shard && shards()) weights_.reset();
}

void ParameterGroup::master_changed() {
  TORCH_CHECK(!gather_, "group ", name_, ": its master changed under a gather");
  weights_.reset();
}

Tensor ParameterGroup::weight(int index) {
  TORCH_CHECK(weights_.defined(), "group ", name_, " is used while it is not gathered");
  const Placed& placed = parameters_[size_t(index)];
  return weights_.narrow(0, placed.offset, placed.count).view(placed.spec.shape);
}

Tensor& ParameterGroup::gradient_buffer() {
  if (!whole_gradient_.defined()) {
    const MemoryScope scope(MemoryCategory::gradients);
    whole_gradient_ = at::empty({total_}, at::TensorOptions(at::kFloat).device(options_.device));
    std::fill(written_.begin(), written_.end(), false);
  }
  return whole_gradient_;
}

Tensor ParameterGroup::gradient_of(int index, bool& first) {
  const Placed& placed = parameters_[size_t(index)];
  Tensor view = gradient_buffer().narrow(0, placed.offset, placed.count).view(placed.spec.shape);
  first = !written_[size_t(index)];
  written_[size_t(index)] = true;
  return view;
}

void ParameterGroup::add_product(int index, const Tensor& left, const Tensor& right) {
  bool first = false;
  Tensor gradient = gradient_of(index, first);
  if (left.scalar_type() != at::kFloat) {
    accumulate(gradient, at::mm(left.t(), right), first);
  } else if (first) {
    at::mm_out(gradient, left.t(), right);
  } else {
    gradient.addmm_(left.t(), right);
  }
}

void ParameterGroup::add_gradient(int index, const Tensor& value) {
  bool first = false;
  Tensor gradient = gradient_of(index, first);
  accumulate(gradient, value, first);
}

void ParameterGroup::add_rows(int index, const Tensor& rows, const Tensor& values) {
  bool first = false;
  Tensor gradient = gradient_of(index, first);
  if (first) gradient.zero_();
  gradient.index_add_(0, rows, values.to(at::kFloat));
}

void ParameterGroup::start_reduce(bool last) {
  TORCH_CHECK(!reduce_, "group ", name_, ": a reduce is under way");
  if (!trains_) return;
  if (options_.strategy == Strategy::no_shard && !last && channels_.size() > 1) return;
  gradient_buffer();  // a rank to which nothing was written takes part all the same
  int64_t end = 0;  // what nothing was written to, and the padding, must count as zero
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Placed& placed = parameters_[i];
    whole_gradient_.narrow(0, end, placed.offset - end).zero_();
    if (!written_[i]) whole_gradient_.narrow(0, placed.offset, placed.count).zero_();
    end = placed.offset + placed.count;
  }
  whole_gradient_.narrow(0, end, total_ - end).zero_();
  if (channels_.size() == 1) return;
  const MemoryScope scope(MemoryCategory::communication);
  arriving_ = at::empty({total_}, whole_gradient_.options());
  reduce_ = channels_.reduce().all_to_all(arriving_, whole_gradient_, "reducing the gradient of " + name_);
}

void ParameterGroup::finish_reduce() {
  if (!whole_gradient_.defined()) return;
  if (channels_.size() == 1) {
    if (gradient_.defined())
      gradient_.add_(whole_gradient_);
    else
      gradient_ = whole_gradient_;
    whole_gradient_.reset();
    return;
  }
  if (!reduce_) return;
  reduce_.wait();
  const MemoryScope scope(MemoryCategory::gradients);
  const Tensor parts = arriving_.view({channels_.size(), -1});
  Tensor sum = parts[0];
  for (int64_t rank = 1; rank < channels_.size(); ++rank) sum.add_(parts[rank]);
  if (!shards()) {
    channels_.reduce().all_gather(whole_gradient_, sum.clone(), "reducing the gradient of " + name_).wait();
    gradient_ = std::move(whole_gradient_);
  } else if (gradient_.defined()) {
    gradient_.add_(sum);
  } else {
    gradient_ = sum.clone();
  }
  whole_gradient_.reset();
  arriving_.reset();
}

void ParameterGroup::drop_gradient() {
  gradient_.reset();
  whole_gradient_.reset();
}

std::vector<Segment> ParameterGroup::segments() const {
  std::vector<Segment> segments;
  for (size_t i = 0; i < parameters_.size(); ++i) {  // padding belongs to the parameter before it
    const int64_t next = i + 1 < parameters_.size() ? parameters_[i + 1].offset : total_;
    const int64_t begin = std::max(parameters_[i].offset - shard_begin_, int64_t{0});
    const int64_t end = std::min(next - shard_begin_, shard_size_);
    if (begin >= end) continue;
    const ParameterSpec& spec = parameters_[i].spec;
    if (!segments.empty() && segments.back().decays == spec.decays && segments.back().lr_scale == spec.lr_scale)
      segments.back().end = end;
    else
      segments.push_back({begin, end, spec.decays, spec.lr_scale});
  }
  return segments;
}

bool ParameterGroup::counts_in_norm() const { return shards() || channels_.rank() == 0; }

Tensor ParameterGroup::gather_master() {
  if (!shards()) return master_;
  Tensor whole = at::empty({total_}, master_.options());
  channels_.gather().all_gather(whole, master_, "gathering " + name_).wait();
  return whole;
}

}  // namespace wmtp
