#include "data/batches.hpp"

namespace wmtp {

using at::Tensor;

BatchSource::BatchSource(const TokenWindows& windows, WindowOrder order, int64_t batch_size, int64_t sequence_length,
                         int64_t heads, at::Device device)
    : windows_(windows),
      order_(order),
      batch_size_(batch_size),
      sequence_length_(sequence_length),
      heads_(heads),
      device_(device) {}

MicroBatch BatchSource::fetch(const std::vector<int64_t>& positions) const {
  const int64_t B = int64_t(positions.size()), S = sequence_length_;
  MicroBatch micro;
  micro.positions = positions;
  micro.counts.assign(size_t(heads_), 0);
  Tensor tokens = at::zeros({B, S}, at::kLong), kind = at::zeros({B, S}, at::kByte),
         sequence = at::zeros({B}, at::kLong);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t position = positions[size_t(b)];
    sequence.mutable_data_ptr<int64_t>()[b] = position;
    if (position < 0) continue;
    windows_.read(order_.window(position), tokens.mutable_data_ptr<int64_t>() + b * S);
    kind[b].fill_(2);
    for (int64_t k = 1; k <= heads_; ++k) micro.counts[size_t(k - 1)] += std::max<int64_t>(0, S - k);
  }
  micro.batch = {tokens.to(device_), kind.to(device_), sequence.to(device_)};
  return micro;
}

MicroBatch BatchSource::training(int64_t m, int64_t rank, int64_t world) const {
  std::vector<int64_t> positions;
  for (int64_t b = 0; b < batch_size_; ++b) positions.push_back(position_of(m, rank, world, batch_size_, b));
  return fetch(positions);
}

Tensor valid_sources(const Batch& batch, int64_t head) {
  const int64_t S = batch.kind.size(1);
  Tensor valid = at::zeros_like(batch.kind, at::kBool);
  if (head < S) valid.narrow(1, 0, S - head).copy_(batch.kind.narrow(1, head, S - head).eq(2));
  return valid;
}

}  // namespace wmtp
