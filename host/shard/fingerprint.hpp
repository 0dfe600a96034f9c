// Fingerprint of weights: a sum over elements of a hash of (name, element, bits), mod 2^64, so that ranks that hold
// parts of a tensor add up to what one rank with all of it would say, in any order. Tells weights apart that were not
// made to be mistaken for one another; it is no cryptographic hash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wmtp {

/// Of elements [begin, begin + values.size()) of the flattened parameter.
uint64_t fingerprint(const std::string& name, int64_t begin, const std::vector<float>& values);

}  // namespace wmtp
