// Borders between sections, on ranks as threads.
#include "step/border.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

Tensor numbers(at::IntArrayRef shape, double first) {
  return (at::arange(c10::multiply_integers(shape), at::kFloat) + first).view(shape);
}

TEST(Border, CarriesBothDirectionsInOneExchangeWhateverTheirLengths) {
  on_ranks(2, [](Channels& all) {
    all.form_sections(2);
    Channels& channels = all.section_channels();
    const bool is_first = channels.section_index() == 0;
    EXPECT_EQ(is_first, all.rank() == 1) << "rank 0 has the heads";
    const Border before(channels.before(), at::kFloat), after(channels.after(), at::kFloat);
    EXPECT_EQ(before.exists(), !is_first);
    EXPECT_EQ(after.exists(), is_first);
    const Border& border = is_first ? after : before;
    const Tensor output = numbers({2, 5, 3}, 1), d_input = numbers({2, 3, 3}, 100);
    const auto passed = [&](const Tensor& sent, at::IntArrayRef received) { return border.exchange(sent, received); };
    const Tensor found = is_first ? passed(output, d_input.sizes()) : passed(d_input, output.sizes());
    EXPECT_TRUE(at::equal(found, is_first ? d_input : output));
    const Tensor alone = is_first ? passed(output, {}) : passed({}, output.sizes());
    EXPECT_EQ(alone.defined(), !is_first);
    EXPECT_TRUE(is_first || at::equal(alone, output));
    EXPECT_FALSE(border.exchange({}, {}).defined()) << "nothing to exchange";
  });
}

TEST(Border, WhereTheModelEndsPassesNothing) {
  SingleRank rank;
  const Border border(rank.channels.after(), at::kFloat);
  EXPECT_FALSE(border.exists());
  EXPECT_FALSE(border.exchange(numbers({4}, 0), {4}).defined());
}

TEST(Border, OnWhichSidesDisagreeIsNamedByTheChecker) {
  setenv("WMTP_CHECK_COLLECTIVES", "1", 1);
  const auto run = [] {
    on_ranks(2, [](Channels& all) {
      all.form_sections(2);
      Channels& channels = all.section_channels();
      const bool is_first = channels.section_index() == 0;
      const Border border(is_first ? channels.after() : channels.before(), at::kFloat);
      border.exchange(numbers({is_first ? 4 : 6}, 0), {is_first ? 4 : 6});
    });
  };
  try {
    run();
    FAIL() << "sides that exchange different sizes were not noticed";
  } catch (const Error& error) {
    unsetenv("WMTP_CHECK_COLLECTIVES");
    EXPECT_NE(std::string(error.what()).find("passing a border of sections"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace wmtp
