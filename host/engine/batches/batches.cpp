#include "engine/batches/batches.hpp"

namespace wmtp {
namespace {

using at::Tensor;

class WindowBatches final : public BatchSource {
 public:
  WindowBatches(const TokenWindows& windows, WindowOrder order, int64_t batch_size, int64_t sequence_length,
                const BatchRequest& request)
      : BatchSource(batch_size),
        windows_(windows),
        order_(order),
        sequence_length_(sequence_length),
        request_(request) {}

  int64_t count() const override { return windows_.count(); }

  MicroBatch fetch(const std::vector<int64_t>& positions, int64_t rank, int64_t world) const override {
    const int64_t B = int64_t(positions.size()) / world, S = sequence_length_;
    MicroBatch micro;
    micro.positions.assign(positions.begin() + rank * B, positions.begin() + (rank + 1) * B);
    micro.windows.assign(size_t(B), -1);
    micro.bins.assign(size_t(B), -1);
    micro.counts.assign(size_t(request_.heads), 0);
    Tensor tokens = at::zeros({B, S}, at::kLong), kind = at::zeros({B, S}, at::kByte);
    for (int64_t b = 0; b < B; ++b) {
      const int64_t position = micro.positions[size_t(b)];
      if (position < 0) continue;
      micro.windows[size_t(b)] = order_.window(position);
      windows_.read(micro.windows[size_t(b)], tokens.mutable_data_ptr<int64_t>() + b * S);
      kind[b].fill_(answer_kind);
      micro.tokens += S;
      micro.answers += S;
      for (int64_t k = 1; k <= request_.heads; ++k) micro.counts[size_t(k - 1)] += std::max<int64_t>(0, S - k);
    }
    const Tensor unknown = at::full({B}, -1, at::kLong);
    micro.batch = on_device({tokens, kind, at::tensor(micro.positions), unknown, unknown}, request_.device);
    micro.targets = micro.batch.kind.eq(answer_kind);
    return micro;
  }

 private:
  const TokenWindows& windows_;
  WindowOrder order_;
  int64_t sequence_length_;
  BatchRequest request_;
};

}  // namespace

MicroBatch BatchSource::training(int64_t first, int64_t rank, int64_t world) const {
  std::vector<int64_t> positions;
  for (int64_t r = 0; r < world; ++r)
    for (int64_t b = 0; b < batch_size_; ++b) positions.push_back(position_of(first, r, batch_size_, b));
  return fetch(positions, rank, world);
}

MicroBatch BatchSource::held_out(int64_t first, int64_t end, int64_t rank, int64_t world) const {
  std::vector<int64_t> positions;
  for (int64_t position = first; position < first + batch_size_ * world; ++position)
    positions.push_back(position < end ? position : -1);
  return fetch(positions, rank, world);
}

std::unique_ptr<BatchSource> window_batches(const TokenWindows& windows, WindowOrder order, int64_t batch_size,
                                            int64_t sequence_length, const BatchRequest& request) {
  return std::make_unique<WindowBatches>(windows, order, batch_size, sequence_length, request);
}

Batch on_device(const Batch& batch, const at::Device& device) {
  if (device.is_cpu()) return batch;
  const int64_t B = batch.tokens.size(0), tokens = batch.tokens.numel(), numbers = tokens + 3 * B;
  const int64_t kinds = (tokens + int64_t(sizeof(int64_t)) - 1) / int64_t(sizeof(int64_t));  // bytes as int64 elements
  const Tensor staged = at::empty({numbers + kinds}, at::TensorOptions(at::kLong).pinned_memory(true));
  staged.narrow(0, 0, numbers).copy_(at::cat({batch.tokens.flatten(), batch.sequence, batch.correct, batch.partner}));
  const auto kinds_of = [&](const Tensor& all) {
    return all.narrow(0, numbers, kinds).view(at::kByte).narrow(0, 0, tokens);
  };
  kinds_of(staged).copy_(batch.kind.flatten());
  const Tensor there = staged.to(device, /*non_blocking=*/true);
  const auto of_rows = [&](int64_t i) { return there.narrow(0, tokens + i * B, B); };
  return {there.narrow(0, 0, tokens).view_as(batch.tokens), kinds_of(there).view_as(batch.kind), of_rows(0), of_rows(1),
          of_rows(2)};
}

Tensor valid_sources(const Tensor& targets, int64_t head) {
  const int64_t S = targets.size(1);
  Tensor valid = at::zeros_like(targets);
  if (head < S) valid.narrow(1, 0, S - head).copy_(targets.narrow(1, head, S - head));
  return valid;
}

}  // namespace wmtp
