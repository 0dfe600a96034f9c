#include <algorithm>
#include <chrono>
#include <random>

#include "support/test_folder.hpp"

namespace wmtp::test {

TEST(Verify, FindsAndNamesEachOfTwoHundredFlippedBits) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  EXPECT_EQ(verify_checkpoint(checkpoint).step, 3);
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(checkpoint)) files.push_back(item.path());
  ASSERT_EQ(files.size(), 4u);
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const fs::path& file = files[random() % files.size()];
    const size_t bit = random() % (8 * fs::file_size(file));
    flip_bit(file, bit);
    const std::string text = refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); });
    EXPECT_SAYS(text, file.filename().string()) << " bit " << bit;
    flip_bit(file, bit);
  }
  EXPECT_EQ(verify_checkpoint(checkpoint).step, 3);
}

TEST(Verify, DetectsEveryChangedBit) {
  TestFolder folder(memory_folder());
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  for (const std::string name : {"manifest.json", "rank-0000.safetensors", "plugin-state.bin"}) {
    const size_t bits = 8 * fs::file_size(checkpoint / name);
    for (size_t bit = 0; bit < bits; ++bit) {
      flip_bit(checkpoint / name, bit);
      EXPECT_THROW(verify_checkpoint(checkpoint), Error) << name << " bit " << bit;
      flip_bit(checkpoint / name, bit);
    }
  }
  EXPECT_EQ(verify_checkpoint(checkpoint).step, 3);
}

TEST(Verify, NamesTheTensorWhoseBytesAreDamaged) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  const fs::path shard = checkpoint / "rank-0001.safetensors";
  const TensorEntry norm = *SafetensorsFile(shard).find("norm");
  flip_bit(shard, size_t(8 * norm.end - 1));
  const std::string text = refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); });
  EXPECT_SAYS(text, "rank-0001.safetensors: tensor \"param/norm\" has the checksum");
}

TEST(Verify, RefusesATruncatedEmptyMissingOrForeignShard) {
  TestFolder folder;
  const fs::path older = save_checkpoint(folder.path(), 1);
  const fs::path checkpoint = save_checkpoint(folder.path(), 2);
  const fs::path shard = checkpoint / "rank-0001.safetensors";
  const std::string whole = get(shard);
  const auto refused = [&] { return refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); }); };
  put(shard, whole.substr(0, whole.size() - 1));
  EXPECT_SAYS(refused(), "bytes, but the manifest lists " + std::to_string(whole.size()));
  put(shard, "");
  EXPECT_SAYS(refused(), "has 0 bytes, but the manifest lists");
  fs::remove(shard);
  EXPECT_SAYS(refused(), "rank-0001.safetensors does not exist");
  fs::copy_file(older / "rank-0001.safetensors", shard);
  EXPECT_SAYS(refused(), "tensor \"param/embedding\" has the checksum");
  fs::remove(shard);
  fs::copy_file(checkpoint / "rank-0000.safetensors", shard);
  EXPECT_THROW(verify_checkpoint(checkpoint), Error);
}

TEST(Verify, AFileThatAnotherHostKeepsMayBeMissingButNotDamaged) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 2), shard = checkpoint / "rank-0001.safetensors";
  Manifest manifest = read_manifest(checkpoint);
  manifest.hosts["rank-0001.safetensors"] = "node2";
  fs::remove(checkpoint / "manifest.json");
  fs::rename(shard, folder / "elsewhere");
  write_manifest(checkpoint, manifest);
  EXPECT_EQ(verify_checkpoint(checkpoint).hosts, manifest.hosts);
  EXPECT_EQ(intact_files(checkpoint, manifest), (std::set<std::string>{"plugin-state.bin", "rank-0000.safetensors"}));
  fs::rename(folder / "elsewhere", shard);
  EXPECT_EQ(verify_checkpoint(checkpoint).step, 2);
  EXPECT_EQ(intact_files(checkpoint, manifest).size(), 3u);
  flip_bit(shard, 8 * fs::file_size(shard) - 1);
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); }), "rank-0001.safetensors: tensor ");
  EXPECT_EQ(intact_files(checkpoint, manifest).size(), 2u);
}

TEST(Verify, RefusesAFolderOfAnotherStepOrWithoutAManifest) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 2);
  fs::copy(checkpoint, folder / "step-000003");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { verify_checkpoint(folder / "step-000003"); }), "its step is 2");
  fs::copy(checkpoint, folder / "my-copy");
  EXPECT_EQ(verify_checkpoint(folder / "my-copy").step, 2);
  fs::remove(checkpoint / "manifest.json");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); }), "manifest.json does not exist");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { verify_checkpoint(folder / "none"); }), "is not a folder");
}

/// A checkpoint of two ranks for resuming, each with half of each tensor in its own dtype.
fs::path save_in_dtypes(const fs::path& run_folder, const std::string& tensor, const std::string& first,
                        const std::string& second) {
  const fs::path target = run_folder / checkpoint_name(1);
  FolderDraft draft(target);
  Manifest manifest;
  manifest.step = 1;
  manifest.world_size = 2;
  manifest.kind = ManifestKind::resume;
  manifest.state = sound_state();
  if (tensor == "pipeline/seen") manifest.state["pipeline_tensors"]["seen"] = {6};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string name = rank_file_name(rank), dtype = rank == 0 ? first : second;
    const std::string bytes(size_t(3 * dtype_size(dtype)), 'x');
    SafetensorsWriter writer(draft.path() / name, {{tensor, dtype, {3}}}, {});
    writer.write(tensor, 0, bytes.data(), bytes.size());
    writer.finish();
    manifest.slices.push_back({tensor, {6}, rank * 3, rank * 3 + 3, name, tensor, crc32c(bytes.data(), bytes.size())});
  }
  write_manifest(draft.path(), manifest);
  draft.publish();
  return target;
}

TEST(Verify, RefusesADtypeThatTrainingDoesNotSave) {
  const auto refused = [](const std::string& tensor, const std::string& first, const std::string& second) {
    TestFolder folder(memory_folder());
    const fs::path checkpoint = save_in_dtypes(folder.path(), tensor, first, second);
    return refusal(ExitStatus::data, [&] { verify_checkpoint(checkpoint); });
  };
  EXPECT_SAYS(refused("param/w", "F32", "F16"), "rank-0001.safetensors: tensor \"param/w\" is F16; wanted F32");
  EXPECT_SAYS(refused("param/w", "BF16", "BF16"), "rank-0000.safetensors: tensor \"param/w\" is BF16; wanted F32");
  EXPECT_SAYS(refused("exp_avg_sq/w", "F64", "F64"), "is F64; wanted F32");
  EXPECT_SAYS(refused("pipeline/seen", "F64", "F32"),
              "rank-0001.safetensors: tensor \"pipeline/seen\" is F32; wanted F64, as in the tensor's other slices");
  EXPECT_SAYS(refused("pipeline/seen", "F8_E4M3", "F8_E4M3"), "is F8_E4M3; wanted a dtype of saved pipeline state");
  for (const std::string dtype : {"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL"}) {
    TestFolder folder(memory_folder());
    EXPECT_EQ(verify_checkpoint(save_in_dtypes(folder.path(), "pipeline/seen", dtype, dtype)).step, 1) << dtype;
  }
}

TEST(Verify, ReadsAtLeastHalfAGigabytePerSecondFromTheCache) {
  TestFolder folder;
  constexpr int64_t count = 32 << 20;
  FolderDraft draft(folder / "step-000001");
  const std::vector<float> values(count, 1.5f);
  const size_t bytes = values.size() * sizeof(float);
  SafetensorsWriter writer(draft.path() / "s.safetensors", {{"t", "F32", {count}}}, {});
  writer.write("t", 0, values.data(), bytes);
  writer.finish();
  Manifest manifest;
  manifest.step = 1;
  manifest.kind = ManifestKind::model;
  manifest.state = Json::object();
  manifest.slices = {{"t", {count}, 0, count, "s.safetensors", "t", crc32c(values.data(), bytes)}};
  write_manifest(draft.path(), manifest);
  draft.publish();
  double seconds = 1e9;  // of the fastest: another process may have taken the core
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    verify_checkpoint(folder / "step-000001");
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  RecordProperty("gigabytes_per_second", std::to_string(double(bytes) / seconds / 1e9));
  // A quarter of the speed of an idle machine, so that other load does not fail the test; sanitizers are slower still.
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_GT(double(bytes) / seconds, 0.5e9);
#endif
}

TEST(CheckpointNames, AreListedNewestFirstWithoutOtherFolders) {
  TestFolder folder;
  for (const std::string name : {"step-000002", "step-000010", "step-1000000", "step-3", "step-000004.bad",
                                 "step-000005.tmp-1", "model", "step-", "step-+00001", "step-0000007"}) {
    fs::create_directory(folder / name);
  }
  put(folder / "step-000009", "a file");
  const std::vector<fs::path> found = list_checkpoints(folder.path());
  EXPECT_EQ(found, (std::vector<fs::path>{folder / "step-1000000", folder / "step-000010", folder / "step-000002"}));
  EXPECT_TRUE(list_checkpoints(folder / "none").empty());
}

}  // namespace wmtp::test
