// Border: where two sections of the model meet. One exchange carries hidden states to the later section and gradients
// of earlier micro-batches back, so both sides issue the same collectives in the same order (decision 0070).
#pragma once

#include <ATen/ATen.h>

#include "comm/torch/channels.hpp"

namespace wmtp {

class Border {
 public:
  /// `neighbours`: this rank and its counterpart, or this rank alone where the model ends. `options` of hidden states.
  Border(const RankGroup& neighbours, const at::TensorOptions& options) : neighbours_(neighbours), options_(options) {}

  bool exists() const { return neighbours_.size > 1; }
  /// Sends `sent` unless it is undefined, and returns what the other side sends, of the shape `received`; undefined if
  /// that is empty. Nothing happens if there is nothing to send or to receive. [both sides, collective]
  at::Tensor exchange(const at::Tensor& sent, at::IntArrayRef received) const;

 private:
  RankGroup neighbours_;
  at::TensorOptions options_;
};

}  // namespace wmtp
