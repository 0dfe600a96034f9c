// Which heads of a reference belong to those of the policy: what ReferenceHeads means once the reference's heads are
// known.
#pragma once

#include "experiment/experiment.hpp"

namespace wmtp {

/// Hint for heads = "own" where the reference lacks one of the policy's heads.
inline constexpr const char* own_heads_hint =
    "choose a reference with as many heads, or set heads = \"next\", which compares each head with the reference's "
    "next-token head";

/// How many of a reference's `heads`, from the first, predict the same tokens as the policy's.
inline int64_t common_heads(int64_t heads, const std::vector<int64_t>& offsets, const ModelConfig& policy) {
  int64_t common = 0;
  while (common < std::min(heads, policy.future_tokens) &&
         future_offset(offsets, common + 1) == future_offset(policy.future_offsets, common + 1))
    ++common;
  return common;
}

/// Whether head k of a policy with `of_policy` heads is compared with head k of a reference with `of_reference` common
/// ones, not with its next-token head. With one head both are the same, and false.
inline bool reads_own_heads(ReferenceHeads choice, int64_t of_reference, int64_t of_policy) {
  return choice != ReferenceHeads::next && of_policy > 1 && of_reference >= of_policy;
}

/// Whether the choice cannot be followed.
inline bool lacks_own_heads(ReferenceHeads choice, int64_t of_reference, int64_t of_policy) {
  return choice == ReferenceHeads::own && of_reference < of_policy;
}

}  // namespace wmtp
