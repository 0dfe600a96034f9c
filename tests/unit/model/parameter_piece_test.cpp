#include "model/parameter_piece.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace wmtp {
namespace {

using ElementRun = std::tuple<int64_t, int64_t, int64_t>;  // first element of the parameter, offset, count

std::vector<ElementRun> runs(const ParameterPiece& piece, int64_t begin, int64_t count) {
  std::vector<ElementRun> all;
  piece.for_each_run(begin, count,
                     [&](int64_t first, int64_t offset, int64_t n) { all.emplace_back(first, offset, n); });
  return all;
}

TEST(ParameterPiece, OfAWholeParameterIsAllOfIt) {
  const ParameterPiece piece({4, 6}, ParameterCut::none, 0, 1);
  EXPECT_TRUE(piece.is_whole());
  EXPECT_EQ(piece.shape(), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(runs(piece, 5, 7), (std::vector<ElementRun>{{5, 0, 7}}));
  EXPECT_TRUE(ParameterPiece({4, 6}, ParameterCut::columns, 0, 1).is_whole()) << "one rank";
}

TEST(ParameterPiece, ByRowsIsOneRange) {
  const ParameterPiece piece({4, 6}, ParameterCut::rows, 1, 2);
  EXPECT_EQ(piece.shape(), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(piece.count(), 12);
  EXPECT_EQ(piece.first_element(), 12);
  EXPECT_TRUE(piece.columns().empty());
  EXPECT_EQ(runs(piece, 3, 5), (std::vector<ElementRun>{{15, 0, 5}}));
  EXPECT_EQ(ParameterPiece({8}, ParameterCut::rows, 3, 4).first_element(), 6) << "a bias";
}

TEST(ParameterPiece, ByColumnsIsARunOfEachRow) {
  const ParameterPiece piece({3, 6}, ParameterCut::columns, 1, 3);
  EXPECT_EQ(piece.shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(piece.columns(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(runs(piece, 0, 6), (std::vector<ElementRun>{{2, 0, 2}, {8, 2, 2}, {14, 4, 2}}));
  EXPECT_EQ(runs(piece, 1, 4), (std::vector<ElementRun>{{3, 0, 1}, {8, 1, 2}, {14, 3, 1}}))
      << "from the middle of a row";
  EXPECT_EQ(runs(piece, 3, 1), (std::vector<ElementRun>{{9, 0, 1}}));
}

}  // namespace
}  // namespace wmtp
