#include "optimizer/loss_scale.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace wmtp {
namespace {

struct Row {
  int64_t steps;  ///< equal and consecutive
  bool overflowed;
  LossScale::State after;
};

TEST(LossScale, FollowsTheTable) {
  const std::vector<Row> table{
      {999, false, {65536, 999, 2}},   // one short of the window
      {1, false, {131072, 0, 2}},      // doubles
      {1, true, {131072, 0, 1}},       // the first overflow does not lower the scale
      {999, false, {131072, 999, 1}},  //
      {1, true, {65536, 0, 0}},        // the second halves it, any number of steps later
      {1, true, {32768, 0, 0}},        // and so does every later one
      {1, false, {32768, 1, 0}},       //
      {1, true, {16384, 0, 0}},        // one finite step does not change that
      {999, false, {16384, 999, 0}},   //
      {1, false, {32768, 0, 2}},       // but doubling does
      {1, true, {32768, 0, 1}},        //
      {1, true, {16384, 0, 0}},        //
      {14, true, {1, 0, 0}},           // down to 1
      {5, true, {1, 0, 0}},            // and no further
      {1000, false, {2, 0, 2}},        // from where it doubles again
      {16000, false, {131072, 0, 2}},  //
  };
  LossScale scale;
  EXPECT_EQ(scale.value(), 65536);
  for (size_t i = 0; i < table.size(); ++i) {
    for (int64_t step = 0; step < table[i].steps; ++step) scale.update(table[i].overflowed);
    EXPECT_EQ(scale.state(), table[i].after)
        << "row " << i << ": " << scale.value() << ", " << scale.state().finite_steps << " finite steps, "
        << scale.state().overflows_left << " overflows left";
    EXPECT_EQ(scale.value(), table[i].after.scale);
  }
}

TEST(LossScale, ContinuesFromARestoredState) {
  LossScale before, after;
  for (int i = 0; i < 500; ++i) before.update(false);
  before.update(true);
  for (int i = 0; i < 700; ++i) before.update(false);
  after.restore(before.state());
  for (int i = 0; i < 300; ++i) after.update(false);
  EXPECT_EQ(after.state(), (LossScale::State{131072, 0, 2}));
}

}  // namespace
}  // namespace wmtp
