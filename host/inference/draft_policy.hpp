// DraftPolicy: decides, from the measured times of a text's passes, when the other heads draft. Where the weights fit
// into the cache, a pass over several tokens costs about twice as much as one over one token, and drafts that are
// seldom right lose time. How often they are right changes within a text.
#pragma once

#include <cstdint>
#include <limits>

namespace wmtp {

enum class Drafts {
  none,      ///< one token per pass
  adaptive,  ///< in stretches that end when they have lost time
  always,
};

/// With adaptive, the first passes are plain, to learn what a token costs without drafts, and so is one in 32
/// later ones. A stretch of drafts ends when it has lost the time of four plain passes since its best moment. The next
/// one begins after plain passes of eight times its cost. There is none after two stretches in a row before which the
/// other heads took more than an eighth of the time of the plain passes to read their tokens. So, apart from reading
/// the prompt once, drafts cost a text about five plain passes and an eighth of the rest at most.
class DraftPolicy {
 public:
  explicit DraftPolicy(Drafts wanted) : wanted_(wanted) {}

  /// For the next pass.
  bool wants_drafts() const { return wanted_ == Drafts::always || (wanted_ == Drafts::adaptive && plain_left_ == 0); }
  /// No later pass of this text wants drafts.
  bool has_ended() const { return wanted_ == Drafts::none; }
  /// After a pass that yielded `tokens`.
  void record_pass(double seconds, int64_t tokens, bool with_drafts);

 private:
  static constexpr int64_t passes_until_look = 32;
  static constexpr double unknown = std::numeric_limits<double>::infinity();
  void end_stretch();

  Drafts wanted_;
  int64_t plain_left_ = 3;     ///< plain passes until the next stretch
  int64_t counted_ = 0;        ///< passes with drafts
  int64_t slow_readings_ = 0;  ///< in a row
  int64_t waited_ = 0;         ///< plain passes before this stretch; 0: it is the first
  bool begins_ = true;         ///< the next pass with drafts also reads the tokens of the plain passes
  double plain_ = unknown;     ///< seconds of the fastest of the last plain passes; longer texts take longer
  double drafted_ = unknown;   ///< of this stretch
  double reading_ = 0;         ///< seconds in which the other heads read the tokens of the plain passes
  double lost_ = 0;            ///< seconds of this stretch since its best moment
};

}  // namespace wmtp
