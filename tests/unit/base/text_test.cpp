// Text helpers: readable names, numbers and times.
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(NearestName, FindsATypingMistake) {
  const std::vector<std::string> names{"dim", "layers", "heads", "warmup_steps"};
  EXPECT_EQ(nearest_name("layres", names), "layers");
  EXPECT_EQ(nearest_name("laters", names), "layers");
  EXPECT_EQ(nearest_name("dims", names), "dim");
}

TEST(NearestName, DoesNotConfuseShortWords) {
  EXPECT_EQ(nearest_name("gpu", {"auto", "cpu", "cuda"}), "");
  EXPECT_EQ(nearest_name("rl", {"dim", "lr"}), "lr");
  EXPECT_EQ(nearest_name("cp", {"auto", "cpu"}), "cpu");
  EXPECT_EQ(nearest_name("fp16", {"fp32", "bf16"}), "") << "two letters of four";
  EXPECT_EQ(nearest_name("tf32", {"fp32", "bf16", "fp16"}), "");
}

TEST(NearestName, DoesNotConfuseNumbers) {
  EXPECT_EQ(nearest_name("fp64", {"fp32", "bf16", "fp16"}), "");
  EXPECT_EQ(nearest_name("uint64", {"uint16", "uint32"}), "");
  EXPECT_EQ(nearest_name("HumanEval/12", {"HumanEval/11", "HumanEval/13"}), "");
  EXPECT_EQ(nearest_name("unit16", {"uint16", "uint32"}), "uint16");
  EXPECT_EQ(nearest_name("beta1", {"eps", "betas"}), "betas");
}

TEST(NearestName, IgnoresTheCase) {
  EXPECT_EQ(nearest_name("CUDA", {"auto", "cpu", "cuda"}), "cuda");
  EXPECT_EQ(nearest_name("L2", {"l2", "l1", "inf"}), "l2");
  EXPECT_EQ(nearest_name("Warmup", {"dim", "warmup_steps"}), "warmup_steps");
}

TEST(Counted, UsesThePluralExceptForOne) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(1200, "forward pass", "es"), "1,200 forward passes");
}

TEST(NearestName, CompletesAnUnfinishedName) {
  EXPECT_EQ(nearest_name("warmup", {"dim", "warmup_steps"}), "warmup_steps");
}

TEST(NearestName, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("colour", {"dim", "layers"}), "");
  EXPECT_EQ(nearest_name("x", {"dim", "k"}), "");
  EXPECT_EQ(nearest_name("", {"dim"}), "");
  EXPECT_EQ(nearest_name(std::string(20000, 'a'), {"dim"}), "");
}

TEST(CutTo, CountsCharactersRatherThanBytes) {
  EXPECT_EQ(truncate_text("héllo wörld", 4), "hél…");
  EXPECT_EQ(truncate_text("hél…", 4), "hél…");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable(std::string(119, 'a') + "é"), "\"" + std::string(119, 'a') + "…\"");
}

TEST(JoinNames, PutsAndBeforeTheLast) {
  EXPECT_EQ(join_names({}), "");
  EXPECT_EQ(join_names({"a"}), "a");
  EXPECT_EQ(join_names({"a", "b", "c"}), "a, b and c");
}

TEST(Numbers, AreGroupedByThousands) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
}

TEST(Bytes, AreShownInTheLargestUnitThatFits) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1048575), "1.0 MiB");
  EXPECT_EQ(human_bytes(INT64_MAX), "8.0 EiB");
}

TEST(Seconds, AreShownInTwoUnits) {
  EXPECT_EQ(human_seconds(3.21), "3.2s");
  EXPECT_EQ(human_seconds(59.7), "1m 00s");
  EXPECT_EQ(human_seconds(75.2), "1m 15s");
  EXPECT_EQ(human_seconds(3725), "1h 02m");
  EXPECT_EQ(human_seconds(1.0 / 0.0), "?");
}

TEST(UtcNow, IsIso8601WithZ) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 20u);
  EXPECT_EQ(now[4], '-');
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now.back(), 'Z');
}

TEST(NowNs, Advances) {
  const int64_t first = now_ns();
  EXPECT_GT(first, 1'700'000'000'000'000'000);
  EXPECT_GE(now_ns(), first);
}

TEST(Text, LeavesEmptyFoldersOutOfASearchPath) {
  EXPECT_EQ(split_search_path("/a:b"), (std::vector<std::string>{"/a", "b"}));
  EXPECT_EQ(split_search_path(":/a::b:"), (std::vector<std::string>{"/a", "b"}));
  EXPECT_TRUE(split_search_path("").empty() && split_search_path("::").empty());
}

}  // namespace
}  // namespace wmtp
