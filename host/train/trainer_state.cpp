#include "train/trainer_state.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

SavedState TrainerState::saved() const {
  SavedState saved;
  saved.tokens = tokens;
  saved.drawn = drawn;
  saved.guard_window = guard.window();
  saved.skipped_in_a_row = guard.in_a_row();
  saved.base_fingerprint = base_fingerprint;
  saved.results = results;
  if (loss_scale) saved.loss_scale = loss_scale->state();
  return saved;
}

std::map<std::string, at::Tensor> TrainerState::named_tensors() {
  std::map<std::string, at::Tensor> tensors = pipeline_state;
  if (previous_losses) tensors[PreviousLosses::state_name] = previous_losses->table();
  return tensors;
}

/// Ranks without the heads have no use for them.
void TrainerState::restore_previous_losses(const std::string& where) {
  const auto loaded = pipeline_state.extract(PreviousLosses::state_name);
  if (!previous_losses) return;
  const c10::IntArrayRef wanted = previous_losses->shape();
  if (!loaded || loaded.mapped().sizes() != wanted)
    throw Error(ExitStatus::data, where + ": state has " +
                                      (loaded ? "previous losses of shape " + shape_text(loaded.mapped().sizes())
                                              : std::string("no previous losses")) +
                                      "; wanted " + shape_text(wanted) + ": windows, positions, heads");
  previous_losses->restore(loaded.mapped());
}

void TrainerState::restore(const Manifest& manifest, const SavedState& saved, int64_t sequences_per_step,
                           const std::string& where) {
  const auto refuse = [&](const std::string& why) { throw Error(ExitStatus::data, where + ": " + why); };
  if (saved.base_fingerprint != base_fingerprint)
    refuse("its adapter was trained on a base model with fingerprint " + saved.base_fingerprint + ", this model's is " +
           base_fingerprint + "; the base weights have changed");
  if (saved.loss_scale.has_value() != loss_scale.has_value())
    refuse(std::string("state has ") + (saved.loss_scale ? "a" : "no") + " loss_scale; wanted one only in an fp16 run");
  if (int64_t(saved.guard_window.size()) > guard.config().window)
    refuse("state: guard_window has " + counted(int64_t(saved.guard_window.size()), "loss", "es") +
           "; wanted at most " + std::to_string(guard.config().window));
  restore_previous_losses(where);
  step = manifest.step;
  tokens = saved.tokens;
  // Earlier versions did not save `drawn`; with them the number of ranks never changed.
  drawn = saved.drawn.value_or(step * sequences_per_step);
  results = saved.results;
  guard.restore(saved.guard_window, saved.skipped_in_a_row);
  if (loss_scale) loss_scale->restore(*saved.loss_scale);
}

}  // namespace wmtp
