#include "tokenizer/byte_pair_merges.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

namespace wmtp {
namespace {

using Ids = std::vector<int32_t>;

/// Bytes have their own ids.
TokenizerJson with_merges(std::vector<TokenizerJson::Merge> merges) {
  TokenizerJson bpe;
  for (int byte = 0; byte < 256; ++byte) bpe.byte_ids[size_t(byte)] = byte;
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

/// Joins the leftmost pair of the lowest rank, again and again.
Ids naively_merged(const TokenizerJson& bpe, const std::string& word) {
  Ids ids(word.begin(), word.end());
  while (true) {
    size_t best = bpe.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      for (size_t rank = 0; rank < best; ++rank)
        if (bpe.merges[rank].left == ids[i] && bpe.merges[rank].right == ids[i + 1]) best = rank, at = i;
    if (best == bpe.merges.size()) return ids;
    ids[at] = bpe.merges[best].merged;
    ids.erase(ids.begin() + std::ptrdiff_t(at) + 1);
  }
}

TEST(BytePairMerges, OfRandomListsAreThoseOfTheDefinition) {
  std::mt19937 draw(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens{"a", "b", "c"};
    std::map<std::string, int32_t> ids{{"a", 'a'}, {"b", 'b'}, {"c", 'c'}};
    std::map<std::string, TokenizerJson::Merge> merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[draw() % tokens.size()], right = tokens[draw() % tokens.size()];
      if (ids.emplace(left + right, 256 + int32_t(ids.size())).second) tokens.push_back(left + right);
      merges.emplace(left + " " + right, TokenizerJson::Merge{ids[left], ids[right], ids[left + right]});
    }
    std::vector<TokenizerJson::Merge> list;
    for (const auto& [pair, merge] : merges) list.push_back(merge);
    std::shuffle(list.begin(), list.end(), draw);  // also before the merges of their parts
    const auto bpe = with_merges(list);
    const BytePairMerges encoder(bpe);
    std::string word;
    for (int i = 0; i < 200; ++i) word += "abcz"[draw() % 4];
    const Ids wanted = naively_merged(bpe, word);
    Ids whole, parts;
    encoder.encode(word, whole);
    EXPECT_EQ(whole, wanted);
    const size_t begun = encoder.encode_begin(word, parts);
    encoder.encode(std::string_view(word).substr(begun), parts);
    EXPECT_EQ(parts, wanted);
  }
}

TEST(BytePairMerges, BeginAWordUpToTheLastPlaceThatNoTokenSpans) {
  const BytePairMerges encoder(with_merges({{256, 'c', 257}, {'a', 'b', 256}}));
  Ids ids;
  EXPECT_EQ(encoder.encode_begin("abcxab", ids), 4u) << "c may follow";
  EXPECT_EQ(ids, (Ids{257, 'x'}));
  EXPECT_EQ(encoder.encode_begin("abab", ids), 2u) << "no token has b and a in a row";
}

TEST(BytePairMerges, TakeSixteenBytesForEachByteOfAWordWithoutSuchAPlace) {
  std::vector<TokenizerJson::Merge> merges;
  int32_t next = 256;
  for (const char left : std::string("ACGT"))
    for (const char right : std::string("ACGT")) merges.push_back({left, right, next++});
  const BytePairMerges encoder(with_merges(merges));
  std::mt19937 draw(1);
  std::string word(1 << 22, ' ');
  for (char& letter : word) letter = "ACGT"[draw() % 4];
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  Ids ids;
  encoder.encode(word, ids);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(ids.size(), word.size() * 3 / 4);
  EXPECT_LT((after.ru_maxrss - before.ru_maxrss) * 1024, 16 * int64_t(word.size()));
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
