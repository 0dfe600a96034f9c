#include "huggingface/model_import.hpp"

#include <set>

#include "checkpoint/safetensors_folder.hpp"
#include "huggingface/model_export.hpp"
#include "huggingface/params_file.hpp"
#include "model/model_tensors.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

/// Writes a folder in Meta's format: one block and its heads.
void write_meta(const fs::path& folder, int64_t future_tokens, const Json& more = Json::object()) {
  ModelConfig model;
  model.dim = 4;
  model.layers = model.future_tokens = future_tokens;
  model.heads = model.kv_heads = 2;
  model.ffn_dim = 6;
  model.vocab_size = 5;
  fs::create_directory(folder);
  SavedShape saved;
  saved.model = model;
  Json params = Json::parse(params_text(saved));
  params.update(more);
  put(folder / "params.json", params.dump());
  std::vector<TensorEntry> entries;
  for (const ModelTensor& tensor : model_tensors(model)) entries.push_back({tensor.name, "F32", tensor.shape});
  if (more.contains("value_heads")) entries.push_back({"value_heads.v.0.weight", "F32", {1, 4}});
  SafetensorsWriter writer(folder / "consolidated.00.safetensors", entries, {});
  int64_t step = 0;
  for (const TensorEntry& entry : entries) {
    int64_t count = 1;
    for (const int64_t length : entry.shape) count *= length;
    const std::vector<float> values = values_of(step++, count);
    writer.write(entry.name, 0, values.data(), values.size() * 4);
  }
  writer.finish();
}

std::string bytes_of(const fs::path& folder, const std::string& tensor) {
  const SafetensorsFolder files(folder);
  const auto place = files.find(tensor);
  if (!place) return "none";
  const std::vector<char> bytes = read_all<char>(*place->file, tensor);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST(ModelImport, ImportExportImportKeepsEveryByte) {
  TestFolder folder;
  const Json value_heads{{"value_heads", {{{"name", "v"}, {"kind", "linear"}}}}};
  write_meta(folder / "meta", 3, value_heads);
  EXPECT_EQ(import_model({folder / "meta", folder / "one"}).model.future_tokens, 3);
  EXPECT_EQ(verify_checkpoint(folder / "one").kind, ManifestKind::model);
  export_model({folder / "one", folder / "hf"});
  EXPECT_EQ(bytes_of(folder / "hf" / "model.safetensors", "value_heads.v.0.weight"), "none");
  import_model({folder / "hf", folder / "two"});
  for (const std::string& name : SafetensorsFolder(folder / "meta").names())
    EXPECT_EQ(bytes_of(folder / "two", name), bytes_of(folder / "meta", name)) << name;
  EXPECT_EQ(Json::parse(get(folder / "two/params.json"))["value_heads"], value_heads["value_heads"]);
}

TEST(ModelImport, CopiesRequestedHeadsAndKeepsExistingOnes) {
  TestFolder folder;
  write_meta(folder / "one", 1);
  const ModelConfig model = import_model({folder / "one", folder / "three", 3}).model;
  EXPECT_EQ(model.layers, 3);
  for (const char* head : {"extra_heads.0", "extra_heads.1"})
    EXPECT_EQ(bytes_of(folder / "three", head + std::string(".feed_forward.w1.weight")),
              bytes_of(folder / "one", "layers.0.feed_forward.w1.weight"));
  verify_checkpoint(folder / "three");
  import_model({folder / "three", folder / "again", 3});
  EXPECT_SAYS(refusal(ExitStatus::usage,
                      [&] {
                        import_model({folder / "three", folder / "x", 4});
                      }),
              "has heads for 3 future tokens; leave the option out");
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST(ModelImport, AFailedWriteLeavesNothing) {
  TestFolder folder;
  write_meta(folder / "meta", 2);
  for (const FileOperation operation : {FileOperation::create_folder, FileOperation::open, FileOperation::write,
                                        FileOperation::fsync, FileOperation::rename, FileOperation::sync_folder}) {
    set_file_hook([operation](FileOperation now, const fs::path&) {
      if (now == operation) throw std::system_error(ENOSPC, std::generic_category());
    });
    EXPECT_SAYS(refusal(ExitStatus::storage,
                        [&] {
                          import_model({folder / "meta", folder / "out"});
                        }),
                "free some space");
    set_file_hook({});
    std::set<std::string> left;
    for (const auto& entry : fs::directory_iterator(folder.path())) left.insert(entry.path().filename());
    EXPECT_EQ(left, std::set<std::string>{"meta"});
  }
  import_model({folder / "meta", folder / "out"});
}

TEST(ModelImport, RefusesAFolderWithoutAModel) {
  TestFolder folder;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { import_model({folder / "none", folder / "x"}); }), "is not a folder");
  EXPECT_SAYS(refusal(ExitStatus::data,
                      [&] {
                        import_model({folder.path(), folder / "x"});
                      }),
              "neither config.json (Hugging Face) nor params.json (Meta)");
  write_meta(folder / "two", 1);
  fs::copy(folder / "two/consolidated.00.safetensors", folder / "two/consolidated.01.safetensors");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { import_model({folder / "two", folder / "x"}); }), "consolidated.01");
}

TEST(ModelExport, RefusesACriticWithoutTokenHeads) {
  TestFolder folder;
  fs::create_directory(folder / "critic");
  put(folder / "critic/params.json",
      R"({"dim":4,"n_layers":1,"n_heads":2,"value_heads":[{"name":"v","kind":"linear"}]})");
  SafetensorsWriter(folder / "critic/model.safetensors", {}, {}).finish();
  EXPECT_SAYS(refusal(ExitStatus::data,
                      [&] {
                        export_model({folder / "critic", folder / "x"});
                      }),
              "predicts no tokens");
}

}  // namespace wmtp::test
