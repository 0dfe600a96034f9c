// HeadRows: one head's valid sources in a micro-batch, among this rank's positions. Prompts and padding are excluded
// before the output layer.
#pragma once

#include <ATen/ATen.h>

#include "model/torch/linear_cross_entropy.hpp"
#include "shard/sequence_split.hpp"
#include "step/micro_batch_context.hpp"

namespace wmtp {

struct HeadRows {
  MicroBatchContext& step;
  int64_t head;
  int64_t offset;              ///< of the head's targets
  Positions sources;           ///< those that have a target position
  int64_t most;                ///< number of rows of the rank with the most, of those that divide the vocabulary
  at::Tensor index;            ///< [N] into the B * sources.count of them; undefined: all
  at::Tensor hidden, targets;  ///< [P,D] and [N]: P is N, or more with padding (rows_with_padding)

  /// [P,...] of values [B,L',...] whose position `first` belongs to the first of the sources.
  at::Tensor of(const at::Tensor& values, int64_t first) const {
    const at::Tensor rows = values.narrow(1, first, sources.count).flatten(0, 1);
    if (!index.defined()) return rows.contiguous();
    return hidden.size(0) > index.size(0) ? rows_with_padding(rows, index) : rows.index_select(0, index);
  }
};

}  // namespace wmtp
