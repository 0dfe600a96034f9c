// How long the other heads draft, by the measured times of passes.
#include "engine/inference/draft_pace.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

void pass_plainly(DraftPace& pace, double seconds = 1.0) { pace.took(seconds, 1, false); }

/// After the plain passes and the pass that reads the prompt.
DraftPace drafting() {
  DraftPace pace(Drafts::while_they_pay);
  for (const double seconds : {5.0, 1.0, 1.2}) {
    EXPECT_FALSE(pace.wants_drafts());
    pass_plainly(pace, seconds);
  }
  EXPECT_TRUE(pace.wants_drafts());
  pace.took(100, 1, true);
  return pace;
}

/// Passes until drafting ends, at most 1,000.
int drafts(DraftPace& pace, double seconds, int64_t tokens) {
  int count = 0;
  for (; pace.wants_drafts() && count < 1000; ++count) pace.took(seconds, tokens, true);
  return count;
}

int plain_passes(DraftPace& pace) {
  int count = 0;
  for (; !pace.wants_drafts() && count < 1000; ++count) pass_plainly(pace);
  return count;
}

TEST(DraftPace, DraftsGoOnWhileTheySaveTime) {
  DraftPace pace = drafting();
  EXPECT_EQ(drafts(pace, 2.3, 3), 1000);
}

TEST(DraftPace, DraftsEndWhenTheyHaveLostFourPlainPassesAndBeginAgainAfterEightTimesTheirCost) {
  DraftPace pace = drafting();
  EXPECT_EQ(drafts(pace, 2.25, 1), 4);  // each loses 1.25
  EXPECT_FALSE(pace.has_ended());
  EXPECT_EQ(plain_passes(pace), 8 * 5);
  pace.took(2.25 + 3, 1, true);  // reads the 40 tokens in 3 seconds
  EXPECT_EQ(drafts(pace, 2.25, 1), 4);
  EXPECT_EQ(plain_passes(pace), 8 * (5 + 3));
  pace.took(2.25 + 3, 1, true);
  EXPECT_EQ(drafts(pace, 2.25, 4), 1000) << "another part of the text";
}

TEST(DraftPace, DraftsEndForGoodWhereTheOtherHeadsReadSlowly) {
  DraftPace pace = drafting();
  drafts(pace, 2.25, 1);
  EXPECT_EQ(plain_passes(pace), 40);
  pace.took(2.25 + 5.5, 1, true);  // more than 40 / 8
  EXPECT_TRUE(pace.wants_drafts()) << "having paid for it, they may draft";
  drafts(pace, 2.25, 1);
  EXPECT_TRUE(pace.has_ended());
  EXPECT_EQ(plain_passes(pace), 1000);
}

TEST(DraftPace, ALongerTextTakesLongerInBothWays) {
  DraftPace pace = drafting();
  drafts(pace, 2.25, 1);
  while (!pace.wants_drafts()) pass_plainly(pace, 3.0);
  pace.took(9, 1, true);
  EXPECT_EQ(drafts(pace, 6.0, 3), 1000) << "one plain pass takes 3 by now";
}

TEST(DraftPace, EarlierGainsAreNotSpent) {
  DraftPace pace = drafting();
  for (int i = 0; i < 50; ++i) pace.took(2.25, 4, true);
  EXPECT_EQ(drafts(pace, 2.25, 1), 4);
}

TEST(DraftPace, ASlowPassAloneDoesNotEndDrafts) {
  DraftPace pace = drafting();
  pace.took(2.25, 3, true);
  pace.took(500, 3, true);  // counts as twice the fastest
  EXPECT_EQ(drafts(pace, 2.25, 3), 1000);
}

TEST(DraftPace, NothingIsMeasuredWhereDraftsAreAlwaysOrNeverWanted) {
  DraftPace always(Drafts::always), never(Drafts::none);
  EXPECT_EQ(drafts(always, 9, 1), 1000);
  EXPECT_FALSE(always.has_ended());
  EXPECT_FALSE(never.wants_drafts());
  EXPECT_TRUE(never.has_ended());
}

}  // namespace
}  // namespace wmtp
