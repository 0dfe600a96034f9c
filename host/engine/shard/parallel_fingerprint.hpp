// The fingerprint of weights (base/weight_fingerprint.hpp) by all threads of a rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wmtp {

/// Of elements [begin, begin + values.size()) of the flattened parameter.
uint64_t parallel_fingerprint(const std::string& name, int64_t begin, const std::vector<float>& values);

}  // namespace wmtp
