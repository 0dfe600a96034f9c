// Which heads of a reference belong to those of the policy: what ReferenceHeads means once the reference's number of
// heads is known.
#pragma once

#include "experiment/experiment.hpp"

namespace wmtp {

/// Hint for heads = "own" where the reference has fewer heads than the policy.
inline constexpr const char* own_heads_hint =
    "choose a reference with as many heads, or set heads = \"next\", which compares each head with the reference's "
    "next-token head";

/// Whether head k of a policy with `of_policy` heads is compared with head k of a reference with `of_reference`, not
/// with its next-token head. With one head both are the same, and false.
inline bool reads_own_heads(ReferenceHeads choice, int64_t of_reference, int64_t of_policy) {
  return choice != ReferenceHeads::next && of_policy > 1 && of_reference >= of_policy;
}

/// Whether the choice cannot be followed.
inline bool lacks_own_heads(ReferenceHeads choice, int64_t of_reference, int64_t of_policy) {
  return choice == ReferenceHeads::own && of_reference < of_policy;
}

}  // namespace wmtp
