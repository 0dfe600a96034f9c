#include "step/previous_losses.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "memory/allocator.hpp"

namespace wmtp {

using at::Tensor;

namespace {

constexpr const char* what = "sharing the losses of the step";
constexpr float never_read = -1;  // a cross entropy is at least 0

}  // namespace

PreviousLosses::PreviousLosses(int64_t windows, int64_t sequence_length, int64_t heads, const at::Device& device)
    : shape_{windows, sequence_length, heads}, device_(device) {
  if (windows == std::numeric_limits<int64_t>::max())
    throw Error(ExitStatus::usage,
                "the pipeline reads the loss that a token had in the epoch before, but the data are unlimited: no step "
                "reads a token again; train on text, tokens or records");
}

const Tensor& PreviousLosses::table() {
  if (table_.defined()) return table_;
  const MemoryScope scope(MemoryCategory::other);
  const at::Device host = device_.is_meta() ? device_ : at::Device(at::kCPU);
  return table_ = at::full(shape_, never_read, at::TensorOptions(at::kFloat).device(host));
}

float* PreviousLosses::row(int64_t window) {
  if (window >= shape_[0])
    throw Error(ExitStatus::bug,
                "found window " + std::to_string(window) + " of training data that have " + std::to_string(shape_[0]));
  return table().mutable_data_ptr<float>() + window * shape_[1] * shape_[2];
}

Tensor PreviousLosses::of(const MicroBatch& micro) {
  const int64_t B = micro.batch.tokens.size(0), S = micro.batch.tokens.size(1), heads = shape_[2];
  const at::TensorOptions options(at::kFloat);
  if (table().is_meta()) return at::empty({B, S, heads}, options.device(device_));
  const Tensor rows = at::empty({B, S, heads}, options.pinned_memory(device_.is_cuda()));
  for (int64_t b = 0; b < B; ++b) {
    float* const out = rows.mutable_data_ptr<float>() + b * rows.stride(0);
    const int64_t window = micro.windows[size_t(b)];
    if (window < 0)
      std::fill_n(out, S * heads, never_read);
    else
      std::copy_n(row(window), S * heads, out);
  }
  return rows.to(device_, /*non_blocking=*/true);
}

void PreviousLosses::keep(const MicroBatch& micro, int64_t head, const Tensor& losses) {
  if (kept_.empty() || kept_.back().micro != &micro)
    kept_.push_back({&micro, at::zeros({losses.size(0), losses.size(1), shape_[2]}, losses.options())});
  kept_.back().losses.select(2, head - 1).copy_(losses);
}

void PreviousLosses::end_step(Channels& channels) {
  std::vector<Tensor> losses;  // of all ranks, on the host
  std::vector<Row> rows;
  for (const auto& [micro, mine] : kept_) {
    const Tensor numbers = at::stack({at::tensor(micro->sequences), at::tensor(micro->windows)});
    const Tensor every_number = channels.gather_over_data_ranks(numbers, what);
    losses.push_back(channels.gather_over_data_ranks(mine, what).contiguous());
    if (device_.is_meta()) continue;
    losses.back() = losses.back().cpu();
    const auto number = every_number.accessor<int64_t, 3>();
    const int64_t ranks = losses.back().size(0), B = losses.back().size(1), count = losses.back().stride(1);
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t b = 0; b < B; ++b)
        rows.push_back({number[rank][0][b], number[rank][1][b],
                        losses.back().const_data_ptr<float>() + (rank * B + b) * count, count});
  }
  std::sort(rows.begin(), rows.end());
  for (const Row& one : rows)
    if (one.window >= 0) std::copy_n(one.losses, one.count, row(one.window));
  kept_.clear();
}

}  // namespace wmtp
