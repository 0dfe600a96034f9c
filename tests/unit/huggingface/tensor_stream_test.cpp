#include "huggingface/tensor_stream.hpp"

#include <limits>
#include <memory>

#include "support/test_folder.hpp"

namespace wmtp::test {
namespace {

void write_tensor(const fs::path& path, const std::string& dtype, std::vector<int64_t> shape,
                  const std::vector<float>& values) {
  SafetensorsWriter writer(path, {{"w", dtype, std::move(shape)}}, {});
  writer.write("w", 0, values.data(), values.size() * 4);
  writer.finish();
}

std::vector<float> read_tensor(const fs::path& path, const std::string& name) {
  return read_all<float>(SafetensorsFile(path), name);
}

TensorCopy move_of(const SafetensorsFolder& files, RowOrder order, int64_t heads) {
  const StoredTensor place = *files.find("w");
  return {place, {{0, "w"}}, place.entry->shape, "F32", order, heads, place.entry->shape[0]};
}

}  // namespace

TEST(TensorStream, ReordersTheRowsOfEachHeadFromPairsToHalves) {
  TestFolder folder;
  const int64_t heads = 3, width = 4, columns = 2;
  write_tensor(folder / "a", "F32", {heads * width, columns}, values_of(0, heads * width * columns));
  const SafetensorsFolder files(folder / "a");
  copy_tensors({move_of(files, RowOrder::pairs_to_halves, heads)}, folder.path(), {"b"}, {});
  const std::vector<float> before = read_tensor(folder / "a", "w"), after = read_tensor(folder / "b", "w");
  for (int64_t h = 0; h < heads; ++h)  // transformers' conversion: w.view(h, d/2, 2, n).transpose(1, 2)
    for (int64_t i = 0; i < width / 2; ++i)
      for (int64_t j = 0; j < 2; ++j)
        for (int64_t c = 0; c < columns; ++c)
          EXPECT_EQ(after[size_t(((h * 2 + j) * (width / 2) + i) * columns + c)],
                    before[size_t(((h * (width / 2) + i) * 2 + j) * columns + c)]);
}

TEST(TensorStream, HalvesToPairsInvertsPairsToHalves) {
  TestFolder folder;
  for (const int64_t width : {2, 6, 128}) {
    const std::string name = std::to_string(width);
    write_tensor(folder / name, "F32", {4 * width, 3}, values_of(1, 12 * width));
    const SafetensorsFolder there(folder / name);
    copy_tensors({move_of(there, RowOrder::pairs_to_halves, 4)}, folder.path(), {name + "h"}, {});
    const SafetensorsFolder back(folder / (name + "h"));
    copy_tensors({move_of(back, RowOrder::halves_to_pairs, 4)}, folder.path(), {name + "p"}, {});
    EXPECT_EQ(read_tensor(folder / name, "w"), read_tensor(folder / (name + "p"), "w"));
  }
}

TEST(TensorStream, WritesATensorOfManyPiecesToEveryTarget) {
  TestFolder folder;
  const int64_t count = (64 << 10) * 3 + 17;
  write_tensor(folder / "a", "F32", {count}, values_of(2, count));
  const SafetensorsFolder files(folder / "a");
  TensorCopy move = move_of(files, RowOrder::kept, 0);
  move.targets = {{0, "one"}, {1, "two"}, {0, "three"}};
  const std::vector<Slice> slices = copy_tensors({move}, folder.path(), {"x", "y"}, {});
  const std::vector<float> wanted = values_of(2, count);
  EXPECT_EQ(read_tensor(folder / "x", "one"), wanted);
  EXPECT_EQ(read_tensor(folder / "y", "two"), wanted);
  EXPECT_EQ(read_tensor(folder / "x", "three"), wanted);
  ASSERT_EQ(slices.size(), 3u);
  for (const Slice& slice : slices) EXPECT_EQ(slice.crc32c, crc32c(wanted.data(), wanted.size() * 4));
  EXPECT_EQ(slices[1].file, "y");
  EXPECT_EQ(slices[2].tensor, "param/three");
}

TEST(TensorStream, RefusesATensorThatContradictsItsManifest) {
  TestFolder folder;
  const fs::path model = folder / "model";
  fs::create_directory(model);
  write_tensor(model / "m.safetensors", "F32", {5}, values_of(1, 5));
  Manifest manifest;
  manifest.kind = ManifestKind::model;
  manifest.state = Json::object();
  const std::vector<float> others = values_of(7, 5);
  manifest.slices = {{"param/w", {5}, 0, 5, "m.safetensors", "w", crc32c(others.data(), 20)}};
  write_manifest(model, manifest);
  const SafetensorsFolder files(model);
  const SourceChecksums sums(model, ManifestKind::model);
  EXPECT_SAYS(refusal(ExitStatus::data,
                      [&] { copy_tensors({move_of(files, RowOrder::kept, 0)}, folder.path(), {"out"}, sums); }),
              "tensor \"w\" differs from its checksum in the manifest");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SourceChecksums(model, ManifestKind::adapter); }),
              "found kind \"model\" in its manifest, wanted \"adapter\"");
}

TEST(TensorStream, RefusesReadsBeyondATensor) {
  TestFolder folder;
  write_tensor(folder / "a", "F32", {5}, values_of(1, 5));
  const SafetensorsFile file(folder / "a");
  char bytes[64];
  EXPECT_SAYS(refusal(ExitStatus::bug, [&] { file.read(*file.find("w"), 4, bytes, 17); }), "beyond the tensor");
  EXPECT_SAYS(refusal(ExitStatus::bug, [&] { file.read(*file.find("w"), -1, bytes, 1); }), "beyond the tensor");
}

TEST(TensorStream, RefusesATensorWithNaNOrInfinity) {
  TestFolder folder;
  std::vector<float> values = values_of(1, 3 << 16);
  values[(2 << 16) + 5] = -std::numeric_limits<float>::infinity();
  write_tensor(folder / "a", "F32", {3 << 8, 256}, values);
  const SafetensorsFolder files(folder / "a");
  EXPECT_SAYS(refusal(ExitStatus::data,
                      [&] { copy_tensors({move_of(files, RowOrder::pairs_to_halves, 3)}, folder.path(), {"b"}, {}); }),
              "a: tensor \"w\" has infinity at [512,5]: the file is damaged");
}

}  // namespace wmtp::test
