#include "checkpoint/saved_state.hpp"

#include <functional>
#include <limits>

#include "support/test_folder.hpp"

namespace wmtp::test {

Manifest sound_manifest() {
  Manifest manifest;
  manifest.step = 7;
  manifest.kind = ManifestKind::resume;
  manifest.state = Json::parse(R"({"tokens":9,"drawn":4,"guard_window":[2.5,-1,3],"skipped_in_a_row":1,
      "optimizer_steps":{"layers.0":6},"pipeline_tensors":{"seen":[3,2]},"base_fingerprint":"f",
      "loss_scale":{"scale":65536,"finite_steps":2,"overflows_left":1},
      "results":{"epoch":1.5,"train_loss":2.25,"valid_loss":0.1,"valid_step":6,"best_loss":-0.3}})");
  return manifest;
}

TEST(SavedState, ReadsBackEveryValue) {
  const SavedState saved = saved_state(sound_manifest(), "m");
  EXPECT_EQ(saved.tokens, 9);
  EXPECT_EQ(saved.drawn, 4);
  EXPECT_EQ(saved.guard_window, (std::deque<double>{2.5, -1, 3}));
  EXPECT_EQ(saved.skipped_in_a_row, 1);
  EXPECT_EQ(saved.base_fingerprint, "f");
  ASSERT_TRUE(saved.loss_scale);
  EXPECT_EQ(saved.loss_scale->scale, 65536);
  EXPECT_EQ(saved.loss_scale->finite_steps, 2);
  EXPECT_EQ(saved.loss_scale->overflows_left, 1);
  EXPECT_EQ(saved.optimizer_steps.at("layers.0"), 6);
  EXPECT_EQ(saved.pipeline_state_shapes.at("seen"), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(saved.results, (RunProgress{1.5, 2.25, 0.1, -0.3, 6}));
}

TEST(SavedState, ADivergedLossIsLeftOutBecauseJsonCannotHoldIt) {
  SavedState saved;
  saved.results = {0.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 2.0, 6};
  EXPECT_EQ(to_json(saved)["results"], Json::parse(R"({"epoch":0.5,"best_loss":2.0})"));
}

TEST(SavedState, IsWrittenUnderTheKeysOfTheCheckpointFormat) {
  const Manifest manifest = sound_manifest();
  EXPECT_EQ(to_json(saved_state(manifest, "m")), manifest.state);
  EXPECT_EQ(to_json(SavedState()).dump(),
            R"({"guard_window":[],"optimizer_steps":{},"skipped_in_a_row":0,"tokens":0})");
}

TEST(SavedState, AcceptsAbsentOptionalValues) {
  Manifest manifest = sound_manifest();
  for (const char* key : {"drawn", "base_fingerprint", "loss_scale", "pipeline_tensors", "results"})
    manifest.state.erase(key);
  const SavedState saved = saved_state(manifest, "m");
  EXPECT_FALSE(saved.drawn || saved.loss_scale);
  EXPECT_TRUE(saved.base_fingerprint.empty() && saved.pipeline_state_shapes.empty());
  EXPECT_EQ(saved.results, RunProgress());
}

TEST(SavedState, RefusesEveryInvalidValueByItsKey) {
  struct Change {
    std::function<void(Json&)> apply;
    std::string expected;
  };
  const std::vector<Change> changes{
      {[](Json& s) { s = nullptr; }, "state is null; wanted an object"},
      {[](Json& s) { s = Json::array({1}); }, "state is array; wanted an object"},
      {[](Json& s) { s = "text"; }, "state is string; wanted an object"},
      {[](Json& s) { s["more"] = 1; }, "state has the unknown key \"more\""},
      {[](Json& s) { s.erase("tokens"); }, "state has no tokens"},
      {[](Json& s) { s["tokens"] = -1; }, "state tokens is -1; wanted an integer from 0"},
      {[](Json& s) { s["tokens"] = "9"; }, "state tokens is \"9\""},
      {[](Json& s) { s["tokens"] = 1.5; }, "state tokens is 1.5"},
      {[](Json& s) { s["tokens"] = nullptr; }, "state tokens is null"},
      {[](Json& s) { s["tokens"] = 18446744073709551615u; }, "state tokens is 18446744073709551615"},
      {[](Json& s) { s["tokens"] = 9007199254740993; }, "wanted an integer from 0 to 9007199254740992"},
      {[](Json& s) { s["drawn"] = -4; }, "state drawn is -4"},
      {[](Json& s) { s["drawn"] = Json::array(); }, "state drawn is []"},
      {[](Json& s) { s.erase("guard_window"); }, "state has no guard_window"},
      {[](Json& s) { s["guard_window"] = 2.5; }, "state guard_window is number; wanted a list"},
      {[](Json& s) { s["guard_window"][1] = nullptr; }, "state guard_window is null; wanted finite numbers"},
      {[](Json& s) { s["guard_window"][1] = "2"; }, "state guard_window is \"2\"; wanted finite numbers"},
      {[](Json& s) { s["guard_window"][1] = std::numeric_limits<double>::infinity(); }, "state guard_window is null"},
      {[](Json& s) { s.erase("skipped_in_a_row"); }, "state has no skipped_in_a_row"},
      {[](Json& s) { s["skipped_in_a_row"] = -1; }, "state skipped_in_a_row is -1"},
      {[](Json& s) { s["skipped_in_a_row"] = 8; }, "state skipped_in_a_row is 8; wanted an integer from 0 to 7"},
      {[](Json& s) { s["skipped_in_a_row"] = true; }, "state skipped_in_a_row is true"},
      {[](Json& s) { s["base_fingerprint"] = 5; }, "state base_fingerprint is number; wanted a string"},
      {[](Json& s) { s.erase("optimizer_steps"); }, "state has no optimizer_steps"},
      {[](Json& s) { s["optimizer_steps"] = 6; }, "state optimizer_steps is number; wanted an object"},
      {[](Json& s) { s["optimizer_steps"]["layers.0"] = -6; }, "state: optimizer_steps layers.0 is -6"},
      {[](Json& s) { s["optimizer_steps"]["layers.0"] = 8; }, "layers.0 is 8; wanted an integer from 0 to 7"},
      {[](Json& s) { s["optimizer_steps"]["\x1b[2J"] = "x"; }, "optimizer_steps \"\\x1b[2J\" is \"x\""},
      {[](Json& s) { s["pipeline_tensors"] = "seen"; }, "pipeline_tensors is string; wanted an object"},
      {[](Json& s) { s["pipeline_tensors"]["seen"] = 3; }, "pipeline_tensors seen is number; wanted a list"},
      {[](Json& s) { s["pipeline_tensors"]["seen"][0] = -3; }, "pipeline_tensors seen is -3"},
      {[](Json& s) { s["loss_scale"] = 4; }, "loss_scale is number; wanted an object"},
      {[](Json& s) { s["loss_scale"].erase("scale"); }, "loss_scale has no scale"},
      {[](Json& s) { s["loss_scale"]["scale"] = 0; }, "scale is 0; wanted a power of two, at least 1"},
      {[](Json& s) { s["loss_scale"]["scale"] = -4; }, "scale is -4; wanted"},
      {[](Json& s) { s["loss_scale"]["scale"] = 0.5; }, "scale is 0.5; wanted"},
      {[](Json& s) { s["loss_scale"]["scale"] = 3; }, "scale is 3; wanted"},
      {[](Json& s) { s["loss_scale"]["scale"] = "4"; }, "scale is \"4\"; wanted"},
      {[](Json& s) { s["loss_scale"]["scale"] = std::numeric_limits<double>::quiet_NaN(); }, "scale is null; wanted"},
      {[](Json& s) { s["loss_scale"]["finite_steps"] = 8; }, "finite_steps is 8; wanted an integer from 0 to 7"},
      {[](Json& s) { s["loss_scale"]["overflows_left"] = 3; }, "overflows_left is 3; wanted an integer from 0 to 2"},
      {[](Json& s) { s["loss_scale"]["more"] = 3; }, "loss_scale has the unknown key \"more\""},
      {[](Json& s) { s["results"]["epoch"] = "1"; }, "results epoch is \"1\"; wanted a number"},
      {[](Json& s) { s["results"]["valid_step"] = 8; }, "valid_step is 8; wanted an integer from 0 to 7"},
      {[](Json& s) { s["results"]["more"] = 3; }, "results has the unknown key \"more\""},
  };
  for (const Change& change : changes) {
    Manifest manifest = sound_manifest();
    change.apply(manifest.state);
    const std::string text = refusal(ExitStatus::data, [&] { saved_state(manifest, "run/manifest.json"); });
    EXPECT_SAYS(text, change.expected);
    EXPECT_SAYS(text, "run/manifest.json: state");
  }
}

TEST(SavedState, AManifestWithAnInvalidStateIsRefusedByEveryReader) {
  TestFolder folder(memory_folder());
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  Json document = Json::parse(get(checkpoint / "manifest.json"));
  document.erase("crc32c");
  document["state"]["tokens"] = -1;
  const std::string body = document.dump();
  document["crc32c"] = crc32c(body.data(), body.size());
  put(checkpoint / "manifest.json", document.dump() + "\n");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); }), "state tokens is -1");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read_manifest(checkpoint); }), "state tokens is -1");
}

}  // namespace wmtp::test
