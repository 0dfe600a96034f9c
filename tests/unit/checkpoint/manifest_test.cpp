#include "checkpoint/manifest.hpp"

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <tuple>

#include "support/test_folder.hpp"

namespace wmtp::test {

/// A valid manifest and the expected error for each change of it.
Json sound_document() {
  return Json::parse(R"({"format":"wmtp-checkpoint","version":1,"step":7,"world_size":2,"kind":"resume",
      "config_hash":"ab","plugins":{"pipeline rho1":"cd"},"state":{"tokens":9,"drawn":4,"guard_window":[2.5],
        "skipped_in_a_row":1,"optimizer_steps":{"layers.0":6},"pipeline_tensors":{"seen":[3]},
        "loss_scale":{"scale":4,"finite_steps":2,"overflows_left":1},"base_fingerprint":"f"},
      "files":{"rank-0000.safetensors":{"bytes":100,"crc32c":5},"rank-0001.safetensors":{"bytes":100,"crc32c":5}},
      "slices":[{"tensor":"t","shape":[2,3],"begin":0,"end":4,"file":"rank-0000.safetensors","entry":"t","crc32c":1},
                {"tensor":"t","shape":[2,3],"begin":4,"end":6,"file":"rank-0001.safetensors","entry":"t2","crc32c":2},
                {"tensor":"pipeline/seen","shape":[3],"begin":0,"end":3,"file":"rank-0000.safetensors","entry":"p","crc32c":3}]})");
}

std::string sealed(Json document) {
  document.erase("crc32c");
  const std::string body = document.dump();
  document["crc32c"] = crc32c(body.data(), body.size());
  return document.dump() + "\n";
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  TestFolder folder;
  const Manifest read = read_manifest(save_checkpoint(folder.path(), 12));
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.world_size, 2);
  EXPECT_EQ(read.kind, ManifestKind::resume);
  EXPECT_EQ(read.config_hash, "5e1f");
  EXPECT_EQ(read.plugins.at("pipeline rho1"), "ab12");
  EXPECT_EQ(read.state, sound_state());
  ASSERT_EQ(read.slices.size(), 4u);
  EXPECT_EQ(read.slices[2].tensor, "param/embedding");
  EXPECT_EQ(read.slices[2].begin, 12);
  EXPECT_EQ(read.files.size(), 3u);
  EXPECT_EQ(read.files.at("plugin-state.bin"), 19);
  EXPECT_EQ(read.sums.at("plugin-state.bin"), crc32c("state of the plugin", 19));
}

TEST(Manifest, RefusesEveryInvalidField) {
  struct Change {
    std::function<void(Json&)> apply;
    std::string expected;
  };
  const std::vector<Change> changes{
      {[](Json& d) { d["step"] = -1; }, "step is -1"},
      {[](Json& d) { d["step"] = 1.5; }, "step is 1.5"},
      {[](Json& d) { d["step"] = "7"; }, "step is \"7\""},
      {[](Json& d) { d["step"] = 18446744073709551615u; }, "step is 18446744073709551615"},
      {[](Json& d) { d.erase("step"); }, "has no step"},
      {[](Json& d) {
         d["hosts"] = {{"rank-0002.safetensors", "b"}};
       },
       "hosts names \"rank-0002.safetensors\""},
      {[](Json& d) {
         d["hosts"] = {{"rank-0001.safetensors", 1}};
       },
       "has no string as the host of"},
      {[](Json& d) { d["world_size"] = 0; }, "world_size is 0"},
      {[](Json& d) { d["world_size"] = 1; }, "world_size is 1, but \"files\" lists 2 files of ranks"},
      {[](Json& d) { d["world_size"] = 3; }, "world_size is 3, but \"files\" lacks rank-0002.safetensors"},
      {[](Json& d) { d["world_size"] = 1000000; }, "world_size is 1000000, but \"files\" lacks rank-0002"},
      {[](Json& d) { d["kind"] = "model"; }, "world_size is 2; wanted 1 where kind is model"},
      {[](Json& d) { d["kind"] = "adapter", d["world_size"] = 1; },
       "state is not empty; wanted {} where kind is adapter"},
      {[](Json& d) { d["step"] = 1000000000001; }, "step is 1000000000001; wanted 0 to 1000000000000"},
      {[](Json& d) { d["kind"] = "other"; }, "kind is \"other\""},
      {[](Json& d) { d["format"] = "other"; }, "a different format"},
      {[](Json& d) { d["version"] = 2; }, "version 2; this program reads 1"},
      {[](Json& d) { d.erase("version"); }, "has no version"},
      {[](Json& d) { d["more"] = 1; }, "unknown key \"more\""},
      {[](Json& d) { d.erase("state"); }, "has no state"},
      {[](Json& d) { d["state"]["tokens"] = -9; }, "state tokens is -9"},
      {[](Json& d) { d["state"]["pipeline_tensors"]["seen"] = {4}; },
       "\"pipeline/seen\" has a different shape than in state"},
      {[](Json& d) { d["state"].erase("pipeline_tensors"); }, "\"pipeline/seen\" is missing in state"},
      {[](Json& d) { d["state"]["pipeline_tensors"]["other"] = {3}; }, "names \"other\", which has no slice"},
      {[](Json& d) { d["plugins"] = Json::array(); }, "plugins is array"},
      {[](Json& d) { d["plugins"]["x"] = 1; }, "no string as the hash of plugin \"x\""},
      {[](Json& d) { d["files"]["../x"] = d["files"]["rank-0000.safetensors"]; }, "files names \"../x\""},
      {[](Json& d) { d["files"]["a/b"] = d["files"]["rank-0000.safetensors"]; }, "files names \"a/b\""},
      {[](Json& d) { d["files"][""] = d["files"]["rank-0000.safetensors"]; }, "files names \"\""},
      {[](Json& d) { d["files"]["manifest.json"] = d["files"]["rank-0000.safetensors"]; },
       "files names \"manifest.json\""},
      {[](Json& d) { d["files"]["rank-0000.safetensors"]["bytes"] = -1; }, "bytes is -1"},
      {[](Json& d) { d["files"]["rank-0000.safetensors"]["crc32c"] = 4294967296; }, "crc32c is 4294967296"},
      {[](Json& d) { d["files"]["rank-0000.safetensors"] = 100; }, "is number; wanted an object"},
      {[](Json& d) { d["slices"] = Json::object(); }, "slices is object"},
      {[](Json& d) { d["slices"][0] = 1; }, "slice 0 is number"},
      {[](Json& d) { d["slices"][0].erase("entry"); }, "slice 0 has no entry"},
      {[](Json& d) { d["slices"][0]["x"] = 1; }, "slice 0 has the unknown key"},
      {[](Json& d) { d["slices"][0]["entry"] = ""; }, "empty tensor or entry"},
      {[](Json& d) { d["slices"][0]["file"] = "other"; }, "\"other\", which \"files\" lacks"},
      {[](Json& d) {
         d["slices"][0]["shape"] = {2, -3};
       },
       "shape is -3"},
      {[](Json& d) {
         d["slices"][0]["shape"] = {3, 2};
       },
       "has a different shape"},
      {[](Json& d) { d["slices"][1]["end"] = 7; }, "is [4, 7) of 6"},
      {[](Json& d) { d["slices"][1]["begin"] = 3; }, "begins at element 3; wanted 4"},
      {[](Json& d) { d["slices"][1]["begin"] = 5; }, "begins at element 5; wanted 4"},
      {[](Json& d) { d["slices"][1]["end"] = 5; }, "ends at element 5 of 6"},
      {[](Json& d) { d["slices"][0]["end"] = 5, d["slices"][0]["begin"] = 6; }, "is [6, 5)"},
      {[](Json& d) { d["slices"].erase(0); }, "begins at element 4; wanted 0"},
      {[](Json& d) {
         d["slices"][0]["shape"] = {4611686018427387904, 4};
       },
       "negative or too large"},
      {[](Json& d) {
         d["slices"][2]["shape"] = {0, 4611686018427387904, 4};
       },
       "negative or too large"},
      {[](Json& d) { d["slices"][0]["shape"] = std::vector<int>(33, 1); }, "more than 32 dimensions"},
  };
  EXPECT_EQ(parse_manifest(sealed(sound_document()), "m").step, 7);
  for (const Change& change : changes) {
    Json document = sound_document();
    change.apply(document);
    const std::string text = refusal(ExitStatus::data, [&] { parse_manifest(sealed(document), "run/manifest.json"); });
    EXPECT_SAYS(text, change.expected);
    EXPECT_SAYS(text, "run/manifest.json");
  }
}

/// A tensor [2,6] of which three slices are of columns 0 to 2, and one of the others.
Json document_with_columns() {
  Json document = sound_document();
  Json& slices = document["slices"];
  const auto slice = [&](Json columns, int64_t begin, int64_t end, const char* file) {
    Json one = slices[0];
    one["shape"] = {2, 6};
    one["columns"] = std::move(columns);
    one["begin"] = begin;
    one["end"] = end;
    one["file"] = file;
    return one;
  };
  const char *first = "rank-0000.safetensors", *second = "rank-0001.safetensors";
  slices[0] = slice({0, 2}, 0, 1, first);
  slices[1] = slice({0, 2}, 1, 4, second);
  slices.push_back(slice({2, 6}, 0, 8, second));
  return document;
}

TEST(Manifest, HasSlicesOfColumns) {
  const Manifest manifest = parse_manifest(sealed(document_with_columns()), "m");
  EXPECT_EQ(manifest.slices[1].columns, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(to_json(manifest)["slices"], document_with_columns()["slices"]) << "and no columns where there are none";
}

TEST(Manifest, RefusesColumnsThatDoNotCoverTheTensor) {
  const auto expect_refused = [](const std::string& expected, const std::function<void(Json & slices)>& change) {
    Json document = document_with_columns();
    change(document["slices"]);
    EXPECT_SAYS(refusal(ExitStatus::data, [&] { parse_manifest(sealed(document), "m"); }), expected);
  };
  const std::string range = "wanted a first column and the end of a range inside a matrix";
  for (const Json& columns : {Json{2, 2}, Json{0, 7}, Json{0}, Json{0, 1, 2}, Json{0, 9223372036854775807}})
    expect_refused(range, [&](Json& slices) { slices[0]["columns"] = columns; });
  expect_refused(range, [](Json& slices) { slices[2]["columns"] = {0, 3}; });  // not a matrix
  expect_refused("overlap those of other slices, or leave a gap", [](Json& slices) {
    slices[3]["columns"] = {1, 6};
    slices[3]["end"] = 10;
  });
  expect_refused("overlap those of other slices, or leave a gap", [](Json& slices) {
    slices[3]["columns"] = {3, 6};
    slices[3]["end"] = 6;
  });
  expect_refused("overlap those of other slices, or leave a gap", [](Json& slices) {
    slices[3].erase("columns");
    slices[3]["end"] = 12;
  });
  expect_refused("the last columns, which end at 5 of 6", [](Json& slices) {
    slices[3]["columns"] = {2, 5};
    slices[3]["end"] = 6;
  });
  expect_refused("is [0, 9) of 8", [](Json& slices) { slices[3]["end"] = 9; });
  expect_refused("ends at element 3 of 4", [](Json& slices) { slices[1]["end"] = 3; });
}

TEST(Slice, KnowsTheRunsThatItHasOfARange) {
  using ElementRun = std::tuple<int64_t, int64_t, int64_t>;
  const auto runs = [](const Slice& slice, int64_t first, int64_t last) {
    std::vector<ElementRun> all;
    slice.for_each_run_in(first, last,
                          [&](int64_t from, int64_t in_entry, int64_t n) { all.emplace_back(from, in_entry, n); });
    return all;
  };
  Slice slice;
  slice.shape = {4, 6};
  slice.begin = 5;
  slice.end = 15;
  EXPECT_EQ(runs(slice, 0, 24), (std::vector<ElementRun>{{5, 0, 10}}));
  EXPECT_EQ(runs(slice, 7, 9), (std::vector<ElementRun>{{7, 2, 2}}));
  EXPECT_TRUE(runs(slice, 15, 24).empty());
  slice.columns = {2, 5};  // elements 1 to 10 of the twelve in these columns
  slice.begin = 1;
  slice.end = 11;
  EXPECT_EQ(runs(slice, 0, 24), (std::vector<ElementRun>{{3, 0, 2}, {8, 2, 3}, {14, 5, 3}, {20, 8, 2}}));
  EXPECT_EQ(runs(slice, 4, 10), (std::vector<ElementRun>{{4, 1, 1}, {8, 2, 2}}));
  EXPECT_EQ(runs(slice, 15, 16), (std::vector<ElementRun>{{15, 6, 1}}));
  EXPECT_TRUE(runs(slice, 11, 14).empty()) << "between its columns";
}

TEST(Manifest, OfSevenBillionParametersOnAThousandRanksIsRead) {
  Json document = sound_document();
  Json slice = document["slices"][0];
  document["slices"].clear();
  document["state"].erase("pipeline_tensors");
  constexpr int64_t slices = 104'000;
  slice["shape"] = {slices, 4096};
  slice["columns"] = {0, 4096};
  for (int64_t i = 0; i < slices; ++i) {
    slice["begin"] = i * 4096;
    slice["end"] = (i + 1) * 4096;
    slice["entry"] = "param/layers.31.feed_forward.w2.weight/" + std::to_string(i);
    document["slices"].push_back(slice);
  }
  const std::string text = sealed(document);
  EXPECT_GT(text.size(), size_t{16} << 20) << "an earlier limit";
  TestFolder folder;
  std::ofstream(folder.path() / manifest_file_name) << text;
  EXPECT_EQ(int64_t(read_manifest(folder.path()).slices.size()), slices);
}

TEST(Manifest, RefusesTextThatIsNotCanonical) {
  const std::string good = sealed(sound_document());
  const auto refused = [](const std::string& text) {
    return refusal(ExitStatus::data, [&] { parse_manifest(text, "m"); });
  };
  EXPECT_SAYS(refused(""), "invalid JSON at byte");
  EXPECT_SAYS(refused("[]"), "crc32c is missing");
  EXPECT_SAYS(refused(" " + good), "its text is not canonical");
  EXPECT_SAYS(refused(good.substr(0, good.size() - 3)), "invalid JSON at byte");
  std::string changed = good;
  changed.replace(changed.find("\"step\":7"), 8, "\"step\":8");
  EXPECT_SAYS(refused(changed), "has the checksum");
  std::string twice = good;
  twice.insert(1, "\"step\":7,");
  EXPECT_SAYS(refused(twice), "occurs twice");
  Json without = sound_document();
  EXPECT_SAYS(refused(without.dump()), "crc32c is missing");
}

TEST(Manifest, DoesNotCallAnotherVersionDamaged) {
  Json document = sound_document();
  document["version"] = 2;
  document["something"] = "new";
  EXPECT_THROW(parse_manifest(sealed(document), "m"), UnknownManifestVersion);
}

TEST(Manifest, RefusesAFileBeyondTheSizeLimit) {
  TestFolder folder;
  put(folder / "manifest.json", "");
  fs::resize_file(folder / "manifest.json", 1LL << 40);
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { read_manifest(folder.path()); }), "at most 268435456 are read");
}

TEST(Manifest, WriterRefusesWhatItCouldNotReadBack) {
  for (const Json& state : {Json{{"x", std::nan("")}}, Json{{"x", std::numeric_limits<double>::infinity()}},
                            Json{{"x", "\xff"}}, Json::binary({1, 2})}) {
    TestFolder folder;
    Manifest manifest;
    manifest.kind = ManifestKind::resume;
    manifest.state = state;
    EXPECT_SAYS(refusal(ExitStatus::bug, [&] { write_manifest(folder.path(), manifest); }),
                "state contains a value that JSON");
    EXPECT_TRUE(fs::is_empty(folder.path()));
  }
  TestFolder folder;
  put(folder / "file", "abc");
  Manifest manifest;
  manifest.kind = ManifestKind::model;
  manifest.files = {{"file", 4}};
  EXPECT_SAYS(refusal(ExitStatus::bug, [&] { write_manifest(folder.path(), manifest); }), "has 3 bytes; wanted 4");
  manifest.files = {{"other", 4}};
  EXPECT_SAYS(refusal(ExitStatus::bug, [&] { write_manifest(folder.path(), manifest); }), "is missing; wanted 4");
}

TEST(Manifest, FiveThousandMutatedManifestsNeverCrash) {
  std::mt19937 random(7);
  const std::vector<Json> values{
      -1, 0, 1.5, "x", nullptr, Json::array(), Json::object(), true, 9223372036854775807, 18446744073709551615u};
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    Json document = sound_document();
    const Json flat = document.flatten();
    auto item = flat.begin();
    std::advance(item, random() % flat.size());
    document[Json::json_pointer(item.key())] = values[random() % values.size()];
    std::string text = sealed(document);
    if (random() % 4 == 0) text[random() % text.size()] = char(random());
    try {
      parse_manifest(text, "m");
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), ExitStatus::data);
      ++refused;
    }
  }
  EXPECT_GT(refused, 3'000);
}

}  // namespace wmtp::test
