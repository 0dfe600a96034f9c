// Compared with the Python library safetensors, if the project's virtual environment has it.
#include <cstdlib>

#include "support/source_tree.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {

class PythonSafetensors : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path root = source_tree();
    python_ = root / ".venv/bin/python";
    if (!fs::exists(python_) || run("import safetensors.numpy") != 0)
      GTEST_SKIP() << ".venv lacks safetensors or numpy";
  }
  int run(const std::string& code) const {
    put(folder_ / "code.py", code);
    const std::string command = "cd '" + folder_.path().string() + "' && '" + python_.string() + "' code.py 2>log";
    return std::system(command.c_str());
  }
  TestFolder folder_;
  fs::path python_;
};

TEST_F(PythonSafetensors, ReadsOurFiles) {
  SafetensorsWriter writer(folder_ / "ours.safetensors",
                           {{"b", "U8", {3}}, {"a.weight", "F32", {2, 3}}, {"n", "I64", {}}, {"none", "F16", {0, 4}}},
                           {{"format", "pt"}});
  const std::vector<float> values = values_of(0, 6);
  const int64_t n = -5;
  writer.write("a.weight", 0, values.data(), 24);
  writer.write("b", 0, "\1\2\3", 3);
  writer.write("n", 0, &n, 8);
  writer.finish();
  EXPECT_EQ(run("import numpy as np\n"
                "from safetensors import safe_open\n"
                "f = safe_open('ours.safetensors', 'np')\n"
                "assert f.metadata() == {'format': 'pt'}\n"
                "assert sorted(f.keys()) == ['a.weight', 'b', 'n', 'none']\n"
                "a = f.get_tensor('a.weight')\n"
                "assert a.dtype == np.float32 and (a == np.arange(6).reshape(2, 3)).all()\n"
                "assert f.get_tensor('b').tolist() == [1, 2, 3]\n"
                "assert f.get_tensor('n').shape == () and f.get_tensor('n') == -5\n"
                "assert f.get_tensor('none').shape == (0, 4)\n"),
            0)
      << get(folder_ / "log");
}

TEST_F(PythonSafetensors, WritesFilesThatWeRead) {
  ASSERT_EQ(run("import numpy as np\n"
                "from safetensors.numpy import save_file\n"
                "save_file({'w': np.arange(12, dtype=np.float32).reshape(3, 4), 'i': np.array([7, -7]),\n"
                "           'h': np.ones((1,), dtype=np.float16), 's': np.array(2.5), 'none': np.zeros((0, 3))},\n"
                "          'theirs.safetensors', metadata={'format': 'np'})\n"),
            0)
      << get(folder_ / "log");
  const SafetensorsFile file(folder_ / "theirs.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "np");
  EXPECT_EQ(file.entries().size(), 5u);
  const TensorEntry* w = file.find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(read_all<float>(file, "w"), values_of(0, 12));
  EXPECT_EQ(file.find("i")->dtype, "I64");
  EXPECT_EQ(file.find("h")->dtype, "F16");
  EXPECT_TRUE(file.find("s")->shape.empty());
}

}  // namespace wmtp::test
