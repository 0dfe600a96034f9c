// How long the other heads draft, by the measured times of passes.
#include "inference/draft_policy.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

void pass_plainly(DraftPolicy& policy, double seconds = 1.0) { policy.record_pass(seconds, 1, false); }

/// After the plain passes and the pass that reads the prompt.
DraftPolicy drafting() {
  DraftPolicy policy(Drafts::adaptive);
  for (const double seconds : {5.0, 1.0, 1.2}) {
    EXPECT_FALSE(policy.wants_drafts());
    pass_plainly(policy, seconds);
  }
  EXPECT_TRUE(policy.wants_drafts());
  policy.record_pass(100, 1, true);
  return policy;
}

/// Passes until drafting ends, at most 1,000.
int drafts(DraftPolicy& policy, double seconds, int64_t tokens) {
  int count = 0;
  for (; policy.wants_drafts() && count < 1000; ++count) policy.record_pass(seconds, tokens, true);
  return count;
}

/// Passes until drafting ends, at most 1,000, with a plain one in between of `plain` seconds whenever it is wanted.
int drafts_with_looks(DraftPolicy& policy, double seconds, int64_t tokens, double plain) {
  int count = 0;
  for (; count < 1000; ++count) {
    count += drafts(policy, seconds, tokens);
    if (count >= 1000) break;
    pass_plainly(policy, plain);
    if (!policy.wants_drafts()) break;
  }
  return count;
}

int plain_passes(DraftPolicy& policy) {
  int count = 0;
  for (; !policy.wants_drafts() && count < 1000; ++count) pass_plainly(policy);
  return count;
}

TEST(DraftPolicy, DraftsGoOnWhileTheySaveTime) {
  DraftPolicy policy = drafting();
  EXPECT_GE(drafts_with_looks(policy, 2.3, 3, 1.0), 1000);
}

TEST(DraftPolicy, DraftsEndWhenTheyHaveLostFourPlainPassesAndBeginAgainAfterEightTimesTheirCost) {
  DraftPolicy policy = drafting();
  EXPECT_EQ(drafts(policy, 2.25, 1), 1 + 4);  // each after the first counts, and loses 1.25
  EXPECT_FALSE(policy.has_ended());
  EXPECT_EQ(plain_passes(policy), 8 * 5);
  policy.record_pass(2.25 + 3, 1, true);  // reads the 40 tokens in 3 seconds
  EXPECT_EQ(drafts(policy, 2.25, 1), 5);
  EXPECT_EQ(plain_passes(policy), 8 * (5 + 3));
  policy.record_pass(2.25 + 3, 1, true);
  EXPECT_GE(drafts_with_looks(policy, 2.25, 4, 1.0), 1000) << "another part of the text";
}

TEST(DraftPolicy, DraftsEndForGoodWhereTheOtherHeadsReadSlowly) {
  DraftPolicy policy = drafting();
  drafts(policy, 2.25, 1);
  EXPECT_EQ(plain_passes(policy), 40);
  policy.record_pass(2.25 + 5.5, 1, true);  // more than 40 / 8
  drafts(policy, 2.25, 1);
  EXPECT_FALSE(policy.has_ended()) << "it may have been a pause";
  EXPECT_EQ(plain_passes(policy), 84);  // eight times 5 + 5.5
  policy.record_pass(2.25 + 11, 1, true);
  drafts(policy, 2.25, 1);
  EXPECT_TRUE(policy.has_ended());
  EXPECT_EQ(plain_passes(policy), 1000);
}

TEST(DraftPolicy, ALongerTextTakesLongerInBothWays) {
  DraftPolicy policy = drafting();
  drafts(policy, 2.25, 1);
  while (!policy.wants_drafts()) pass_plainly(policy, 3.0);
  policy.record_pass(9, 1, true);
  EXPECT_GE(drafts_with_looks(policy, 6.0, 3, 3.0), 1000) << "one plain pass takes 3 by now";
}

TEST(DraftPolicy, SlowPlainPassesAreFoundOutLater) {
  DraftPolicy policy(Drafts::adaptive);
  for (int i = 0; i < 3; ++i) pass_plainly(policy, 9.0);  // while another process is busy
  EXPECT_LT(drafts_with_looks(policy, 2.25, 1, 1.0), 50);
}

TEST(DraftPolicy, EarlierGainsAreNotSpent) {
  DraftPolicy policy = drafting();
  for (int i = 0; i < 20; ++i) policy.record_pass(2.25, 4, true);
  EXPECT_EQ(drafts(policy, 2.25, 1), 4);
}

TEST(DraftPolicy, ASlowPassAloneDoesNotEndDrafts) {
  for (const bool at_once : {false, true}) {
    DraftPolicy policy = drafting();
    if (!at_once) policy.record_pass(2.25, 3, true);
    policy.record_pass(500, 3, true);  // counts as twice the fastest, or not at all
    EXPECT_GE(drafts_with_looks(policy, 2.25, 3, 1.0), 1000);
  }
}

TEST(DraftPolicy, NothingIsMeasuredWhereDraftsAreAlwaysOrNeverWanted) {
  DraftPolicy always(Drafts::always), never(Drafts::none);
  EXPECT_EQ(drafts(always, 9, 1), 1000);
  EXPECT_FALSE(always.has_ended());
  EXPECT_FALSE(never.wants_drafts());
  EXPECT_TRUE(never.has_ended());
}

}  // namespace
}  // namespace wmtp
