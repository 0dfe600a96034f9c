// RankExchange: the ranks that divide the work of a block, independently of how they communicate.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

class RankExchange {
 public:
  virtual ~RankExchange() = default;
  virtual int64_t ranks() const = 0;
  virtual int64_t rank() const = 0;
  /// parts [R, ...]: sends part r to rank r; returns the received parts, in rank order. [all R ranks, collective]
  virtual at::Tensor all_to_all(const at::Tensor& parts) const = 0;
  /// [...] -> [R, ...], every rank's part, in rank order. [all R ranks, collective]
  virtual at::Tensor all_gather(const at::Tensor& part) const = 0;

  /// [A,n,...] of each rank -> [A,R*n,...]: positions or columns of all ranks, joined. [all R ranks, collective]
  at::Tensor gathered(const at::Tensor& part) const {
    return all_gather(part.contiguous()).transpose(0, 1).flatten(1, 2);
  }
};

}  // namespace wmtp
