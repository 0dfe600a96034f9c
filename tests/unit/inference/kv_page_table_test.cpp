// Pages of texts: shared until a text writes, and given back.
#include "inference/kv_page_table.hpp"

#include <gtest/gtest.h>

#include <set>

#include "model/chunks.hpp"

namespace wmtp {
namespace {

constexpr int64_t page = keys_per_panel;
using Copies = std::vector<std::pair<int64_t, int64_t>>;

TEST(KvPageTable, HoldThePositionsOfATextInOrder) {
  KvPageTable pages(2, 3 * page);
  EXPECT_EQ(pages.count(), 6);
  EXPECT_TRUE(pages.make_writable(0, 0, 1).empty());
  EXPECT_EQ(pages.pages(0).size(), 1U);
  EXPECT_TRUE(pages.make_writable(0, 1, page).empty());
  EXPECT_EQ(pages.pages(0).size(), 1U);
  EXPECT_TRUE(pages.make_writable(0, page, 2 * page + 1).empty());
  EXPECT_EQ(pages.pages(0).size(), 3U);
  pages.make_writable(1, 0, 3 * page);
  std::set<int64_t> all(pages.pages(0).begin(), pages.pages(0).end());
  all.insert(pages.pages(1).begin(), pages.pages(1).end());
  EXPECT_EQ(all.size(), 6U) << "no page has two texts";
}

TEST(KvPageTable, AreSharedUntilATextWritesToThem) {
  KvPageTable pages(3, 3 * page);
  pages.make_writable(0, 0, 2 * page + 5);
  for (const int64_t text : {1, 2}) {
    pages.share(0, text, page + 1);
    EXPECT_EQ(pages.pages(text), std::vector<int64_t>(pages.pages(0).begin(), pages.pages(0).begin() + 2));
  }
  const int64_t shared = pages.pages(0)[1];
  const Copies copies = pages.make_writable(1, page + 1, page + 2);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].first, shared);
  EXPECT_EQ(pages.pages(1), (std::vector<int64_t>{pages.pages(0)[0], copies[0].second}));
  EXPECT_TRUE(pages.make_writable(1, page + 2, page + 3).empty()) << "its own by now";
  EXPECT_EQ(pages.pages(2)[1], shared);
}

TEST(KvPageTable, TheLastUserOfAPageWritesWithoutACopy) {
  KvPageTable pages(2, 2 * page);
  pages.make_writable(0, 0, 10);
  pages.share(0, 1, 10);
  pages.shorten(0, 0);
  EXPECT_TRUE(pages.make_writable(1, 10, 11).empty());
}

TEST(KvPageTable, AreGivenBackByTheLastOfTheirTexts) {
  KvPageTable pages(2, 2 * page);
  for (int round = 0; round < 100; ++round) {
    pages.make_writable(0, 0, 2 * page);
    pages.share(0, 1, 2 * page);
    pages.shorten(0, 0);
    EXPECT_TRUE(pages.make_writable(0, 0, 2 * page).empty());
    pages.shorten(1, page);
    EXPECT_EQ(pages.pages(1).size(), 1U);
    pages.shorten(1, 0);
    pages.shorten(0, 0);
  }
}

}  // namespace
}  // namespace wmtp
