// The dtype in which a precision of an experiment computes, holds and sends values.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>

#include "experiment/experiment.hpp"

namespace wmtp {

inline at::ScalarType precision_dtype(Precision precision) {
  constexpr std::array dtypes{at::kFloat, at::kBFloat16, at::kHalf};
  static_assert(dtypes.size() == names_of<Precision>.size());
  return dtypes[size_t(precision)];
}

}  // namespace wmtp
