// GroupExchange: a group of ranks (comm/torch/channels.hpp) that divide the work of a block.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "comm/torch/channels.hpp"
#include "model/torch/rank_exchange.hpp"

namespace wmtp {

class GroupExchange final : public RankExchange {
 public:
  /// `what` is exchanged, in errors.
  GroupExchange(const RankGroup& group, std::string what) : group_(group), what_(std::move(what)) {}

  int64_t ranks() const override { return group_.size; }
  int64_t rank() const override { return group_.rank; }
  at::Tensor all_to_all(const at::Tensor& parts) const override {
    at::Tensor received = at::empty_like(parts);
    group_.gather_channel->all_to_all(received.view({-1}), parts.view({-1}), "exchanging " + what_).wait();
    return received;
  }
  at::Tensor all_gather(const at::Tensor& part) const override {
    std::vector<int64_t> shape = part.sizes().vec();
    shape.insert(shape.begin(), group_.size);
    at::Tensor parts = at::empty(shape, part.options());
    group_.gather_channel->all_gather(parts.view({-1}), part.view({-1}), "gathering " + what_).wait();
    return parts;
  }

 private:
  RankGroup group_;
  std::string what_;
};

}  // namespace wmtp
