// Borders between sections, on ranks as threads.
#include "step/border.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

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
    const Border before(channels.previous_section(), at::kFloat), after(channels.next_section(), at::kFloat);
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
  const Border border(rank.channels.next_section(), at::kFloat);
  EXPECT_FALSE(border.exists());
  EXPECT_FALSE(border.exchange(numbers({4}, 0), {4}).defined());
}

/// What the checker of collectives says of two sides of a border.
std::string noticed(const std::function<void(const Border&, bool is_first)>& side) {
  setenv("WMTP_CHECK_COLLECTIVES", "1", 1);
  std::string text;
  try {
    on_ranks(2, [&](Channels& all) {
      all.form_sections(2);
      Channels& channels = all.section_channels();
      const bool is_first = channels.section_index() == 0;
      side(Border(is_first ? channels.next_section() : channels.previous_section(), at::kFloat), is_first);
    });
  } catch (const Error& error) {
    text = error.what();
  }
  unsetenv("WMTP_CHECK_COLLECTIVES");
  return text;
}

TEST(Border, OnWhichSidesDisagreeIsNamedByTheChecker) {
  const std::string sizes = noticed(
      [](const Border& border, bool is_first) { border.exchange(numbers({is_first ? 4 : 6}, 0), {is_first ? 4 : 6}); });
  EXPECT_NE(sizes.find("passing a border of sections"), std::string::npos) << sizes;
  // Two exchanges, of which one side makes the second one first.
  const std::string order = noticed([](const Border& border, bool is_first) {
    const int64_t first = is_first ? 4 : 6;
    border.exchange(numbers({first}, 0), {first});
    border.exchange(numbers({10 - first}, 0), {10 - first});
  });
  EXPECT_NE(order.find("passing a border of sections"), std::string::npos) << order;
}

}  // namespace
}  // namespace wmtp
