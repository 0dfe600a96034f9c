// Windows of a text: the tokens of each, and which are new.
#include "data/tokens/text_windows.hpp"

#include <gtest/gtest.h>

namespace wmtp {

static bool operator==(const TextWindow& a, const TextWindow& b) {
  return a.begin == b.begin && a.end == b.end && a.first_new == b.first_new;
}

namespace {

using Windows = std::vector<TextWindow>;

TEST(TextWindows, AreAdjacentWhenTheStrideIsTheirLength) {
  EXPECT_EQ(split_into_windows(10, 4, 4), (Windows{{0, 4, 0}, {4, 8, 4}, {8, 10, 8}}));
  EXPECT_EQ(split_into_windows(8, 4, 4), (Windows{{0, 4, 0}, {4, 8, 4}}));
}

TEST(TextWindows, BeginEarlierIfTheLastWouldBeTooShort) {
  EXPECT_EQ(split_into_windows(10, 4, 4, 3), (Windows{{0, 4, 0}, {4, 8, 4}, {7, 10, 8}}));
  EXPECT_EQ(split_into_windows(11, 4, 4, 3), (Windows{{0, 4, 0}, {4, 8, 4}, {8, 11, 8}}));
  EXPECT_EQ(split_into_windows(2, 4, 4, 3), (Windows{{0, 2, 0}}));
}

TEST(TextWindows, OverlapWithASmallerStrideAndTheLastOneIsFull) {
  EXPECT_EQ(split_into_windows(9, 4, 2), (Windows{{0, 4, 0}, {2, 6, 4}, {4, 8, 6}, {5, 9, 8}}));
  EXPECT_EQ(split_into_windows(5, 4, 3), (Windows{{0, 4, 0}, {1, 5, 4}}));
}

TEST(TextWindows, AreOneForATextOfAtMostOneWindow) {
  for (const size_t stride : {1, 3, 4}) {
    EXPECT_EQ(split_into_windows(4, 4, stride), (Windows{{0, 4, 0}})) << stride;
    EXPECT_EQ(split_into_windows(2, 4, stride), (Windows{{0, 2, 0}})) << stride;
    EXPECT_TRUE(split_into_windows(0, 4, stride).empty());
  }
}

TEST(TextWindows, ReadEachTokenAsNewOnceWithTheContextThatTheStrideLeaves) {
  for (size_t stride = 1; stride <= 7; ++stride) {
    size_t read = 0;
    for (const TextWindow& window : split_into_windows(50, 7, stride)) {
      EXPECT_EQ(window.first_new, read);
      EXPECT_GT(window.end, read);
      EXPECT_LE(window.end - window.begin, 7u);
      if (read > 0) {
        EXPECT_GE(window.first_new - window.begin, 7 - stride);
      }
      read = window.end;
    }
    EXPECT_EQ(read, 50u);
  }
}

}  // namespace
}  // namespace wmtp
