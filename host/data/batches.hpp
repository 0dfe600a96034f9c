// Batches: the windows of a micro-batch as tensors, and how many targets each head has in them.
#pragma once

#include <cstdint>
#include <vector>
#include <wmtp/step.hpp>

#include "data/order.hpp"
#include "data/token_windows.hpp"

namespace wmtp {

struct MicroBatch {
  Batch batch;
  std::vector<int64_t> counts;     ///< [H] valid targets of each head, here
  std::vector<int64_t> positions;  ///< of the sequences in the run's order; -1 for padding
};

class BatchSource {
 public:
  /// `heads`: H. The windows outlive this.
  BatchSource(const TokenWindows& windows, WindowOrder order, int64_t batch_size, int64_t sequence_length,
              int64_t heads, at::Device device);

  /// The sequences at these positions of the run's order; -1 gives a sequence of padding.
  MicroBatch fetch(const std::vector<int64_t>& positions) const;
  /// Micro-batch `m` of this rank, counted from the start of the run.
  MicroBatch training(int64_t m, int64_t rank, int64_t world) const;

 private:
  const TokenWindows& windows_;
  WindowOrder order_;
  int64_t batch_size_, sequence_length_, heads_;
  at::Device device_;
};

/// [B,S] bool: whether head k has a valid target at each source position.
at::Tensor valid_sources(const Batch& batch, int64_t head);

}  // namespace wmtp
