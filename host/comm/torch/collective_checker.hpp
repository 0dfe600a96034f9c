// Compares the next collective across the ranks of a communicator before issuing it: ranks that disagree would
// otherwise wait for each other until a timeout, or exchange unrelated bytes. Costs a small all-gather per collective,
// so only debug builds do it, or WMTP_CHECK_COLLECTIVES=1 (0 disables it in a debug build).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>

#include "comm/torch/c10d_names.hpp"

namespace wmtp {

bool collectives_are_checked();

/// "128 Float to 512": the elements and type of a collective's tensors on this rank.
std::string sizes_text(const at::Tensor& input, const at::Tensor& output);

/// This rank's next collective; the first 200 characters are compared.
struct NextCollective {
  int rank;
  std::string text;  ///< purpose, operation, sizes, dtype, and its index on this communicator
};

/// "" if the ranks agree; else each rank's next collective. `device`: of the communicator's tensors. [all ranks of the
/// communicator, collective]
std::string disagreement(c10d::Backend& backend, at::Device device, const NextCollective& mine);

}  // namespace wmtp
