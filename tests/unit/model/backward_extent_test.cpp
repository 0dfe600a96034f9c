#include "model/backward_extent.hpp"

#include <gtest/gtest.h>

#include <set>

namespace wmtp {
namespace {

/// Two trunk blocks, layers.0 and layers.1; heads layers.2, extra_heads.0 and extra_heads.1.
BackwardExtent extent(const std::set<std::string>& trained, FutureHeads heads = FutureHeads::parallel) {
  ModelConfig model;
  model.layers = 5;
  model.future_tokens = 3;
  model.future_heads = heads;
  return {model, 3, [&](const std::string& unit) { return trained.contains(unit); }};
}

std::vector<bool> heads_of(const BackwardExtent& extent) {
  return {extent.reaches_head(1), extent.reaches_head(2), extent.reaches_head(3)};
}

using Heads = std::vector<bool>;

TEST(BackwardExtent, GoesDownToTheLowestBlockThatTrains) {
  EXPECT_EQ(extent({"tok_embeddings"}).lowest_block(), 0);
  EXPECT_EQ(extent({"layers.1", "extra_heads.0"}).lowest_block(), 1);
  EXPECT_EQ(extent({"extra_heads.0"}).lowest_block(), 2);
}

TEST(BackwardExtent, ReachesEveryHeadOfATrainedTrunkOrNorm) {
  for (const char* below : {"tok_embeddings", "layers.0", "norm"})
    EXPECT_EQ(heads_of(extent({below})), (Heads{true, true, true})) << below;
}

TEST(BackwardExtent, ReachesEveryHeadOfATrainedEmbeddingWithoutATrunk) {
  ModelConfig model;
  model.layers = model.future_tokens = 3;
  const BackwardExtent found{model, 3, [](const std::string& unit) { return unit == "tok_embeddings"; }};
  EXPECT_EQ(heads_of(found), (Heads{true, true, true}));
  EXPECT_EQ(found.lowest_block(), 0);
}

TEST(BackwardExtent, ReachesOfFrozenHeadsOnlyThoseThatReadATrainedOne) {
  EXPECT_EQ(heads_of(extent({"layers.2"})), (Heads{true, false, false}));
  EXPECT_EQ(heads_of(extent({"extra_heads.0"})), (Heads{false, true, false}));
  EXPECT_EQ(heads_of(extent({"extra_heads.0"}, FutureHeads::chained)), (Heads{false, true, true}));
  EXPECT_EQ(extent({"extra_heads.0"}, FutureHeads::chained).first_head(), 2);
  EXPECT_EQ(heads_of(extent({"extra_heads.0"}, FutureHeads::shared)), (Heads{false, true, true}));
}

TEST(BackwardExtent, ReachesNoHeadWhereOnlyTheOutputLayerTrains) {
  EXPECT_EQ(heads_of(extent({"output"})), (Heads{false, false, false}));
  EXPECT_EQ(extent({"output"}).first_head(), 4);
}

}  // namespace
}  // namespace wmtp
