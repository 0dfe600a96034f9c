#include "core/tokenizer/byte_pair_merges.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

using Ids = std::vector<int32_t>;

/// Bytes have their own ids.
TokenizerJson with_merges(std::vector<TokenizerJson::Merge> merges) {
  TokenizerJson bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.byte_ids[static_cast<size_t>(byte)] = byte;
  bpe.merges = std::move(merges);
  return bpe;
}

Ids ids_of(const TokenizerJson& bpe, const std::string& word) {
  Ids ids;
  BytePairMerges(bpe).encode(word, ids);
  return ids;
}

TEST(BytePairMerges, JoinThePairWithTheFirstMergeOfTheList) {
  const int ab = 256, bc = 257, abc = 258;
  const auto left_first = with_merges({{'a', 'b', ab}, {'b', 'c', bc}, {ab, 'c', abc}});
  EXPECT_EQ(ids_of(left_first, "abc"), Ids{abc});
  EXPECT_EQ(ids_of(left_first, "abbc"), (Ids{ab, bc}));
  const auto right_first = with_merges({{'b', 'c', bc}, {'a', 'b', ab}, {ab, 'c', abc}});
  EXPECT_EQ(ids_of(right_first, "abc"), (Ids{'a', bc})) << "b is merged before a b could be";
  EXPECT_EQ(ids_of(right_first, "xaby"), (Ids{'x', ab, 'y'}));
  EXPECT_EQ(ids_of(right_first, ""), Ids{});
}

TEST(BytePairMerges, JoinTheLeftmostOfEqualPairs) {
  const int aa = 256, four = 257;
  const auto bpe = with_merges({{'a', 'a', aa}, {aa, aa, four}});
  EXPECT_EQ(ids_of(bpe, "aaa"), (Ids{aa, 'a'}));
  EXPECT_EQ(ids_of(bpe, "aaaaaaa"), (Ids{four, aa, 'a'}));
}

TEST(BytePairMerges, EncodeALongWordLikeItsParts) {
  const int ab = 256;
  const auto bpe = with_merges({{'a', 'b', ab}});
  std::string word;
  for (int i = 0; i < 1000; ++i) word += "abx";
  Ids wanted;
  for (int i = 0; i < 1000; ++i) wanted.insert(wanted.end(), {ab, 'x'});
  EXPECT_EQ(ids_of(bpe, word), wanted);
}

TEST(BytePairMerges, EncodeAWordThatIsATokenAsOneIdIfMergesAreIgnored) {
  auto bpe = with_merges({{'a', 'b', 256}});
  bpe.tokens.resize(259);
  bpe.tokens[257] = "abc";
  bpe.tokens[258] = "<end>";
  bpe.added = {{258, "<end>", true, false}};
  EXPECT_EQ(ids_of(bpe, "abc"), (Ids{256, 'c'}));
  bpe.ignore_merges = true;
  EXPECT_EQ(ids_of(bpe, "abc"), Ids{257});
  EXPECT_EQ(ids_of(bpe, "abcc"), (Ids{256, 'c', 'c'})) << "not a word token";
  EXPECT_EQ(ids_of(bpe, "<end>").size(), 5u) << "added tokens are not words";
}

TEST(BytePairMerges, StartFromCharactersThatAreTokensAndBytesOfTheOthers) {
  auto bpe = with_merges({{300, 'x', 301}});
  bpe.characters = {{"\xc3\xa9", 300}, {"x", 'x'}};
  EXPECT_EQ(ids_of(bpe, "\xc3\xa9x"), Ids{301});
  EXPECT_EQ(ids_of(bpe, "\xc3\xa8x"), (Ids{0xc3, 0xa8, 'x'}));
}

}  // namespace
}  // namespace wmtp
