#include "checkpoint/safetensors_folder.hpp"

#include <cmath>
#include <limits>

#include "support/test_folder.hpp"

namespace wmtp::test {

void write_one(const fs::path& path, const std::string& tensor, uint8_t value) {
  SafetensorsWriter writer(path, {{tensor, "U8", {1}}}, {});
  writer.write(tensor, 0, &value, 1);
  writer.finish();
}

TEST(SafetensorsFolder, OpensAFileAFolderAndAnIndexedFolder) {
  TestFolder folder;
  write_one(folder / "model-00001-of-00002.safetensors", "a", 1);
  write_one(folder / "model-00002-of-00002.safetensors", "b", 2);
  EXPECT_EQ(SafetensorsFolder(folder / "model-00001-of-00002.safetensors").names(), std::vector<std::string>{"a"});
  EXPECT_EQ(SafetensorsFolder(folder.path()).names(), (std::vector<std::string>{"a", "b"}));

  write_one(folder / "consolidated.safetensors", "a", 3);
  const std::string text = refusal(ExitStatus::data, [&] { SafetensorsFolder all(folder.path()); });
  EXPECT_SAYS(text, "is in both");
  put(folder / "model.safetensors.index.json",
      R"({"metadata":{"total_size":2},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
      R"("b":"model-00002-of-00002.safetensors"}})");
  const SafetensorsFolder indexed(folder.path());
  EXPECT_EQ(read_all<uint8_t>(*indexed.find("a")->file, "a"), std::vector<uint8_t>{1});
  EXPECT_EQ(read_all<uint8_t>(*indexed.find("b")->file, "b"), std::vector<uint8_t>{2});
  EXPECT_EQ(indexed.find("b")->file->path().filename(), "model-00002-of-00002.safetensors");
  EXPECT_FALSE(indexed.find("c").has_value());
}

TEST(SafetensorsFolder, ReadsTheParametersOfACheckpointAcrossItsShards) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  const SafetensorsFolder files(checkpoint);
  EXPECT_EQ(files.names(), (std::vector<std::string>{"embedding", "norm"}));
  const StoredTensor embedding = *files.find("embedding");
  EXPECT_EQ(embedding.entry->shape, (std::vector<int64_t>{6, 4}));
  std::vector<float> all(24), across(4);
  embedding.read(0, 24, all.data());
  std::vector<float> wanted = values_of(3, 12, 0);
  for (const float value : values_of(3, 12, 12)) wanted.push_back(value);
  EXPECT_EQ(all, wanted);
  embedding.read(10, 4, across.data());
  EXPECT_EQ(across, std::vector<float>(wanted.begin() + 10, wanted.begin() + 14));
}

TEST(SafetensorsFolder, ReadsNoTensorWithNaNOrInfinity) {
  TestFolder folder;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::vector<float>> tensors(4, values_of(1, 600));
  tensors[1][599] = std::nanf("");
  tensors[3][0] = infinity;
  SafetensorsWriter writer(folder / "a",
                           {{"a", "F32", {600}}, {"b", "F32", {20, 30}}, {"c", "F32", {600}}, {"d", "F32", {600}}}, {});
  for (size_t i = 0; i < tensors.size(); ++i) writer.write(std::string(1, char('a' + i)), 0, tensors[i].data(), 2400);
  writer.finish();
  const SafetensorsFolder files(folder / "a");
  std::vector<float> values(600);
  files.find("a")->read(0, 600, values.data());
  files.find("b")->read(0, 599, values.data());
  files.find("d")->read(1, 599, values.data());
  EXPECT_SAYS(
      refusal(ExitStatus::data, [&] { files.find("b")->read(300, 300, values.data()); }),
      "a: tensor \"b\" has NaN at [19,29], and 1 other tensor of the file such numbers too: the file is damaged, "
      "or the training that wrote it diverged; use another copy, or weights from before that");
}

TEST(SafetensorsFolder, RefusesATensorThatIsZeroEverywhereIfAsked) {
  TestFolder folder;
  std::vector<float> last(70'000), none(70'000);
  last.back() = 1;
  SafetensorsWriter writer(folder / "a", {{"a", "F32", {70'000}}, {"b", "F32", {7, 10'000}}, {"c", "F32", {20, 0}}},
                           {});
  writer.write("a", 0, last.data(), 280'000);
  writer.write("b", 0, none.data(), 280'000);
  writer.finish();
  const SafetensorsFolder files(folder / "a");
  files.find("a")->check_not_zero();
  files.find("c")->check_not_zero();
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { files.find("b")->check_not_zero(); }),
              "a: tensor \"b\" is zero everywhere, as after a copy that stopped: copy it again");
  std::vector<float> values(70'000);
  files.find("b")->read(0, 70'000, values.data());
}

TEST(SafetensorsFolder, ACheckpointOfSeveralHostsNeedsTheFilesOfAll) {
  TestFolder folder;
  const fs::path checkpoint = save_checkpoint(folder.path(), 3);
  Manifest manifest = read_manifest(checkpoint);
  manifest.hosts["rank-0001.safetensors"] = "node2";
  fs::remove(checkpoint / manifest_file_name);
  write_manifest(checkpoint, manifest);
  fs::remove(checkpoint / "rank-0001.safetensors");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFolder all(checkpoint); }),
              "the host \"node2\" keeps it; copy the files of all hosts into one folder");
}

TEST(SafetensorsFolder, RefusesAnIndexThatContradictsItsFiles) {
  TestFolder folder;
  write_one(folder / "one.safetensors", "a", 1);
  const auto refused = [&](const std::string& index) {
    put(folder / "model.safetensors.index.json", index);
    return refusal(ExitStatus::data, [&] { SafetensorsFolder all(folder.path()); });
  };
  EXPECT_SAYS(refused("[]"), "weight_map is missing");
  EXPECT_SAYS(refused(R"({"weight_map":[]})"), "weight_map is missing");
  EXPECT_SAYS(refused(R"({"weight_map":{"a":"../one.safetensors"}})"), "the name of a file in the folder of the index");
  EXPECT_SAYS(refused(R"({"weight_map":{"a":7}})"), "the name of a file in the folder of the index");
  EXPECT_SAYS(refused(R"({"weight_map":{"a":"two.safetensors"}})"), "does not exist");
  EXPECT_SAYS(refused(R"({"weight_map":{"b":"one.safetensors"}})"), "which the index names for it");
  EXPECT_SAYS(refused(R"({"weight_map":{"a":"one.safetensors","a":"one.safetensors"}})"), "occurs twice in one object");
  EXPECT_SAYS(refused(R"({"weight_map":1e999})"), "out of range");
  EXPECT_SAYS(refused(std::string(100'000, '[')), "nested more than 32 levels deep");
}

TEST(SafetensorsFolder, ExplainsAFolderOfPicklesAndAnEmptyFolder) {
  TestFolder folder;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFolder all(folder.path()); }), "contains no *.safetensors");
  put(folder / "pytorch_model.bin", "PK\x03\x04" + std::string(100, '\0'));
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFolder all(folder.path()); }), "save_file(");
}

}  // namespace wmtp::test
