#include "comm/torch/collective_checker.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/ranks.hpp"

namespace wmtp::test {
namespace {

/// In this process, during its lifetime.
class Wish {
 public:
  explicit Wish(const char* value) { setenv(name, value, 1); }
  ~Wish() { unsetenv(name); }

 private:
  static constexpr const char* name = "WMTP_CHECK_COLLECTIVES";
};

/// The error when a rank gathers `count` elements of `dtype`; "" on success.
std::string error_of_gathering(Channels& channels, const std::string& what, int64_t count,
                               at::ScalarType dtype = at::kFloat) {
  at::Tensor mine = at::full({count}, channels.rank() + 1, dtype), all = at::empty({channels.size() * count}, dtype);
  try {
    channels.control().all_gather(all, mine, what).wait();
  } catch (const Error& error) {
    return error.what();
  }
  return all[0].item<double>() == 1 && all[-1].item<double>() == channels.size() ? "" : "other numbers";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CollectiveChecker, AcceptsRanksThatAgree) {
  const Wish checked("1");
  on_ranks(3, [](Channels& channels) {
    EXPECT_EQ(error_of_gathering(channels, "gathering a", 5), "");
    EXPECT_EQ(error_of_gathering(channels, "gathering b", 2, at::kBFloat16), "");
  });
}

TEST(CollectiveChecker, ReportsEveryRanksCollectiveWhenTheyDisagree) {
  const Wish checked("1");
  on_ranks(2, [](Channels& channels) {
    const bool first = channels.rank() == 0;
    const std::string other_purpose = error_of_gathering(channels, first ? "gathering a" : "gathering b", 4);
    EXPECT_TRUE(has(other_purpose, "rank 0 is gathering a (all-gather 1 of this channel, 4 Float to 8)"))
        << other_purpose;
    EXPECT_TRUE(has(other_purpose, "rank 1 is gathering b")) << other_purpose;
    EXPECT_TRUE(has(error_of_gathering(channels, "gathering a", first ? 4 : 5), "5 Float to 10"));
    EXPECT_TRUE(has(error_of_gathering(channels, "gathering a", 4, first ? at::kFloat : at::kHalf), "4 Half to 8"));
    EXPECT_EQ(error_of_gathering(channels, "gathering a", 4), "") << "the refused collectives were not sent";
  });
}

TEST(CollectiveChecker, IsEnabledByTheEnvironment) {
  {
    const Wish no("0");
    EXPECT_FALSE(collectives_are_checked());
  }
  const Wish yes("1");
  EXPECT_TRUE(collectives_are_checked());
}

}  // namespace
}  // namespace wmtp::test
