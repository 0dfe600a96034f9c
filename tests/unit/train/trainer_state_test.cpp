// TrainerState in a checkpoint: what is restored, and what is refused.
#include "train/trainer_state.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

TrainerState fp16_state() {
  TrainerState state{3, 36, 400, Guard({.window = 4})};
  state.guard.restore({2.5, 2.25}, 1);
  state.loss_scale.emplace();
  state.loss_scale->restore({1024, 2, 1});
  state.base_fingerprint = "00ff";
  return state;
}

TEST(TrainerState, IsRestoredAsItWasSaved) {
  const TrainerState saved = fp16_state();
  TrainerState restored = fp16_state();
  restored.step = restored.drawn = restored.tokens = 0;
  restored.guard.restore({}, 0);
  restored.loss_scale.emplace();
  Manifest manifest;
  manifest.step = 3;
  restored.restore(manifest, saved.saved(), 12, "checkpoint");
  EXPECT_EQ(restored.step, 3);
  EXPECT_EQ(to_json(restored.saved()), to_json(saved.saved()));
}

TEST(TrainerState, CountsTheDrawnSequencesByStepsWhereTheyWereNotSaved) {
  TrainerState state = fp16_state();
  SavedState saved = state.saved();
  saved.drawn.reset();
  Manifest manifest;
  manifest.step = 5;
  state.restore(manifest, saved, 12, "checkpoint");
  EXPECT_EQ(state.drawn, 60);
}

TEST(TrainerState, RefusesAnotherBasePrecisionOrGuardWindow) {
  const SavedState saved = fp16_state().saved();
  const auto expect_refused = [&](const std::string& part, const std::function<void(TrainerState&)>& change) {
    TrainerState state = fp16_state();
    change(state);
    EXPECT_SAYS(test::refusal(ExitStatus::data, [&] { state.restore({}, saved, 12, "checkpoint"); }), part);
  };
  expect_refused("fingerprint 00ff", [](TrainerState& state) { state.base_fingerprint = "0100"; });
  expect_refused("state has a loss_scale", [](TrainerState& state) { state.loss_scale.reset(); });
  expect_refused("guard_window has 2 losses; wanted at most 1",
                 [](TrainerState& state) { state.guard = Guard({.window = 1}); });
}

}  // namespace
}  // namespace wmtp
