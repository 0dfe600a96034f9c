// How long the other heads draft, by the measured times of passes.
#include "inference/draft_pace.hpp"

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

/// Passes until drafting ends, at most 1,000, with a plain one in between of `plain` seconds whenever it is wanted.
int drafts_with_looks(DraftPace& pace, double seconds, int64_t tokens, double plain) {
  int count = 0;
  for (; count < 1000; ++count) {
    count += drafts(pace, seconds, tokens);
    if (count >= 1000) break;
    pass_plainly(pace, plain);
    if (!pace.wants_drafts()) break;
  }
  return count;
}

int plain_passes(DraftPace& pace) {
  int count = 0;
  for (; !pace.wants_drafts() && count < 1000; ++count) pass_plainly(pace);
  return count;
}

TEST(DraftPace, DraftsGoOnWhileTheySaveTime) {
  DraftPace pace = drafting();
  EXPECT_GE(drafts_with_looks(pace, 2.3, 3, 1.0), 1000);
}

TEST(DraftPace, DraftsEndWhenTheyHaveLostFourPlainPassesAndBeginAgainAfterEightTimesTheirCost) {
  DraftPace pace = drafting();
  EXPECT_EQ(drafts(pace, 2.25, 1), 1 + 4);  // each after the first counts, and loses 1.25
  EXPECT_FALSE(pace.has_ended());
  EXPECT_EQ(plain_passes(pace), 8 * 5);
  pace.took(2.25 + 3, 1, true);  // reads the 40 tokens in 3 seconds
  EXPECT_EQ(drafts(pace, 2.25, 1), 5);
  EXPECT_EQ(plain_passes(pace), 8 * (5 + 3));
  pace.took(2.25 + 3, 1, true);
  EXPECT_GE(drafts_with_looks(pace, 2.25, 4, 1.0), 1000) << "another part of the text";
}

TEST(DraftPace, DraftsEndForGoodWhereTheOtherHeadsReadSlowly) {
  DraftPace pace = drafting();
  drafts(pace, 2.25, 1);
  EXPECT_EQ(plain_passes(pace), 40);
  pace.took(2.25 + 5.5, 1, true);  // more than 40 / 8
  drafts(pace, 2.25, 1);
  EXPECT_FALSE(pace.has_ended()) << "it may have been a pause";
  EXPECT_EQ(plain_passes(pace), 84);  // eight times 5 + 5.5
  pace.took(2.25 + 11, 1, true);
  drafts(pace, 2.25, 1);
  EXPECT_TRUE(pace.has_ended());
  EXPECT_EQ(plain_passes(pace), 1000);
}

TEST(DraftPace, ALongerTextTakesLongerInBothWays) {
  DraftPace pace = drafting();
  drafts(pace, 2.25, 1);
  while (!pace.wants_drafts()) pass_plainly(pace, 3.0);
  pace.took(9, 1, true);
  EXPECT_GE(drafts_with_looks(pace, 6.0, 3, 3.0), 1000) << "one plain pass takes 3 by now";
}

TEST(DraftPace, SlowPlainPassesAreFoundOutLater) {
  DraftPace pace(Drafts::while_they_pay);
  for (int i = 0; i < 3; ++i) pass_plainly(pace, 9.0);  // while another process is busy
  EXPECT_LT(drafts_with_looks(pace, 2.25, 1, 1.0), 50);
}

TEST(DraftPace, EarlierGainsAreNotSpent) {
  DraftPace pace = drafting();
  for (int i = 0; i < 20; ++i) pace.took(2.25, 4, true);
  EXPECT_EQ(drafts(pace, 2.25, 1), 4);
}

TEST(DraftPace, ASlowPassAloneDoesNotEndDrafts) {
  for (const bool at_once : {false, true}) {
    DraftPace pace = drafting();
    if (!at_once) pace.took(2.25, 3, true);
    pace.took(500, 3, true);  // counts as twice the fastest, or not at all
    EXPECT_GE(drafts_with_looks(pace, 2.25, 3, 1.0), 1000);
  }
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
