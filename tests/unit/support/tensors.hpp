// Tensors as numbers that a test can compare.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace wmtp::test {

/// All elements, in order.
inline std::vector<int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

}  // namespace wmtp::test
