#include "model/sections.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

ModelConfig eight_billion(int64_t future_tokens) {
  ModelConfig model;
  model.dim = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.ffn_dim = 14336;
  model.vocab_size = 128256;
  model.future_tokens = future_tokens;
  model.layers = 28 + future_tokens;
  return model;
}

TEST(Sections, HaveAllBlocksOnceAndInOrder) {
  for (const int64_t heads : {1, 4})
    for (int64_t count = 1; count <= 29; ++count) {
      const ModelConfig model = eight_billion(heads);
      int64_t next = 0;
      for (int64_t i = 0; i < count; ++i) {
        const BlockRange blocks = section_blocks(model, heads, {i, count});
        EXPECT_EQ(blocks.first, next);
        EXPECT_GE(blocks.end, blocks.first + (i < count - 1 ? 1 : 0)) << "section " << i << " of " << count;
        next = blocks.end;
      }
      EXPECT_EQ(next, 28);
    }
}

TEST(Sections, CostAboutTheSame) {
  // Four heads of a vocabulary of 128k cost as much as 13.6 blocks.
  const BlockRange last = section_blocks(eight_billion(4), 4, {1, 2});
  EXPECT_EQ(last.end - last.first, 7);
  const BlockRange only_heads = section_blocks(eight_billion(4), 4, {3, 4});
  EXPECT_EQ(only_heads.end - only_heads.first, 0) << "they cost more than a quarter";
}

}  // namespace
}  // namespace wmtp
