#include "checkpoint/retention.hpp"

#include <algorithm>
#include <system_error>

#include "support/test_folder.hpp"

namespace wmtp::test {

std::vector<std::string> listing(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.push_back(item.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

struct Reports {
  Names lines;
  DamageReport taker() {
    return [this](const fs::path& was, const fs::path& now, const std::string& reason) {
      lines.push_back(was.filename().string() + " -> " + now.filename().string() + ": " + reason);
    };
  }
};

TEST(Retention, KeepsTheNewest) {
  TestFolder folder;
  for (const int step : {1, 2, 3, 4}) save_checkpoint(folder.path(), step);
  std::vector<fs::path> deleted;
  apply_retention(folder.path(), {2}, {}, deleted);
  EXPECT_EQ(deleted, (std::vector<fs::path>{folder / "step-000002", folder / "step-000001"}));
  EXPECT_EQ(listing(folder.path()), (Names{"step-000003", "step-000004"}));
  apply_retention(folder.path(), {2}, {}, deleted);
  EXPECT_EQ(deleted.size(), 2u);
}

void save_validated(const fs::path& run_folder, int64_t step, double loss, int64_t validated_at) {
  const fs::path folder = save_checkpoint(run_folder, step);
  Manifest manifest = read_manifest(folder);
  manifest.state["results"] = {{"valid_loss", loss}, {"valid_step", validated_at}};
  fs::remove(folder / manifest_file_name);
  write_manifest(folder, manifest);
}

TEST(Retention, KeepsTheBestBesideTheNewest) {
  TestFolder folder;
  save_validated(folder.path(), 1, 1.5, 1);
  save_validated(folder.path(), 2, 1.25, 2);
  save_validated(folder.path(), 3, 1.25, 2);  // saved after the validation: another model
  save_validated(folder.path(), 4, 1.75, 4);
  save_checkpoint(folder.path(), 5);
  EXPECT_EQ(best_checkpoint(list_checkpoints(folder.path()))->manifest.step, 2);
  std::vector<fs::path> deleted;
  apply_retention(folder.path(), {1, /*best=*/true}, {}, deleted);
  EXPECT_EQ(listing(folder.path()), (Names{"step-000002", "step-000005"}));
  save_validated(folder.path(), 6, 1.25, 6);
  apply_retention(folder.path(), {1, /*best=*/true}, {}, deleted);
  EXPECT_EQ(listing(folder.path()), Names{"step-000006"}) << "of equal losses the newest";
  apply_retention(folder.path(), {1}, {}, deleted);
  EXPECT_FALSE(best_checkpoint({folder / "step-000005"}).has_value());
}

TEST(Retention, NeverDeletesTheNewestThatVerifies) {
  TestFolder folder;
  for (const int step : {1, 2, 3, 4}) save_checkpoint(folder.path(), step);
  for (const std::string name : {"step-000003", "step-000004"}) flip_bit(folder / name / "plugin-state.bin", 3);
  Reports reports;
  std::vector<fs::path> deleted;
  apply_retention(folder.path(), {1}, reports.taker(), deleted);
  EXPECT_EQ(listing(folder.path()), (Names{"step-000002", "step-000003.bad", "step-000004.bad"}));
  ASSERT_EQ(reports.lines.size(), 2u);
  EXPECT_SAYS(reports.lines[0], "step-000004 -> step-000004.bad: ");
  EXPECT_SAYS(reports.lines[0], "plugin-state.bin");
}

TEST(Retention, DeletesNothingWhenNothingVerifies) {
  TestFolder folder;
  for (const int step : {1, 2}) {
    save_checkpoint(folder.path(), step);
    fs::remove(folder / checkpoint_name(step) / "manifest.json");
  }
  std::vector<fs::path> deleted;
  apply_retention(folder.path(), {1}, {}, deleted);
  EXPECT_TRUE(deleted.empty());
  EXPECT_EQ(listing(folder.path()), (Names{"step-000001.bad", "step-000002.bad"}));
  EXPECT_FALSE(newest_intact(folder.path(), {}).has_value());
}

TEST(Retention, SetsAsideUnderANewName) {
  TestFolder folder;
  for (int round = 0; round < 2; ++round) {
    save_checkpoint(folder.path(), 5);
    flip_bit(folder / "step-000005/manifest.json", 77);
    EXPECT_FALSE(newest_intact(folder.path(), {}).has_value());
  }
  EXPECT_EQ(listing(folder.path()), (Names{"step-000005.bad", "step-000005.bad-2"}));
}

TEST(Retention, ReturnsTheNewestThatVerifiesWithItsManifest) {
  TestFolder folder;
  for (const int step : {1, 2, 3}) save_checkpoint(folder.path(), step);
  flip_bit(folder / "step-000003/rank-0000.safetensors", 1500);
  Reports reports;
  const auto good = newest_intact(folder.path(), reports.taker());
  ASSERT_TRUE(good.has_value());
  EXPECT_EQ(good->folder, folder / "step-000002");
  EXPECT_EQ(good->manifest.step, 2);
  EXPECT_EQ(reports.lines.size(), 1u);
}

TEST(Retention, DoesNotCallUnreadableFilesDamaged) {
  TestFolder folder;
  save_checkpoint(folder.path(), 1);
  const fs::path path = folder / "step-000001/plugin-state.bin";
  fs::remove(path);
  fs::create_symlink(path, path);  // open fails with ELOOP, for root too
  EXPECT_SAYS(refusal(ExitStatus::storage, [&] { newest_intact(folder.path(), {}); }), path.string());
  EXPECT_EQ(listing(folder.path()), Names{"step-000001"});
}

TEST(Retention, LeavesACheckpointOfANewerVersionAlone) {
  TestFolder folder;
  save_checkpoint(folder.path(), 1);
  const fs::path path = folder / "step-000001/manifest.json";
  Json document = Json::parse(get(path));
  document["version"] = 2;
  document.erase("crc32c");
  const std::string body = document.dump();
  document["crc32c"] = crc32c(body.data(), body.size());
  put(path, document.dump() + "\n");
  EXPECT_THROW(newest_intact(folder.path(), {}), UnknownManifestVersion);
  EXPECT_EQ(listing(folder.path()), Names{"step-000001"});
}

TEST(Retention, RemovesOnlyDraftsWithoutAnOwner) {
  TestFolder folder;
  const FolderDraft live(folder / "step-000002");
  const auto named = [&](const std::string& target) { return draft_path(folder / target).filename().string(); };
  Names kept{live.path().filename(), named("notes"), "step-000003.tmp-x", "step-000004.tmp--1"}, all = kept;
  for (const char* target : {"step-000001", "model", "model-ema", "adapter"}) all.push_back(named(target));
  all.emplace_back(prompts_model_name);
  for (const std::string& name : all) {
    fs::create_directories(folder / name);
    put(folder / name / "file", "x");
  }
  EXPECT_EQ(remove_leftovers(folder.path()).size(), 5u);
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(listing(folder.path()), kept);
  EXPECT_TRUE(remove_leftovers(folder / "none").empty());
}

}  // namespace wmtp::test
