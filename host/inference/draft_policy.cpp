#include "inference/draft_policy.hpp"

#include <algorithm>
#include <cmath>

namespace wmtp {

void DraftPolicy::record_pass(double seconds, int64_t tokens, bool with_drafts) {
  if (wanted_ != Drafts::adaptive) return;
  if (!with_drafts) {
    --plain_left_;
    plain_ = std::min(plain_, seconds);
    return;
  }
  if (begins_) {
    begins_ = false;
    reading_ = waited_ > 0 ? std::max(0.0, seconds - drafted_) : 0;
    drafted_ = unknown;
    return;
  }
  if (++counted_ % passes_until_look == 0) plain_left_ = 1;
  const bool is_first = drafted_ == unknown;
  drafted_ = std::min(drafted_, seconds);
  if (is_first) return;
  // A pass during which the thread had to wait for a processor says nothing about drafts.
  const double counted = std::min(seconds, 2 * drafted_);
  lost_ = std::max(0.0, lost_ + counted - double(tokens) * plain_);
  if (lost_ > 4 * plain_) end_stretch();
}

void DraftPolicy::end_stretch() {
  constexpr double largest_share = 1.0 / 8;
  const double waited = double(waited_) * plain_;
  slow_readings_ = reading_ > largest_share * waited ? slow_readings_ + 1 : 0;
  if (slow_readings_ == 2) wanted_ = Drafts::none;
  waited_ = plain_left_ = int64_t(std::ceil((lost_ + std::min(reading_, waited)) / plain_ / largest_share));
  plain_ = unknown;
  lost_ = 0;
  begins_ = true;
}

}  // namespace wmtp
