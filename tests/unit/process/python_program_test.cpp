#include "process/python_program.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A working folder whose `json` tells that it was imported.
class PythonProgramTest : public testing::Test {
 protected:
  PythonProgramTest() {
    folder_.write("json.py", "print('of the working folder')\n");
    folder_.write("encodings/__init__.py", "raise ImportError\n");
    fs::current_path(folder_.path());
    unsetenv("PYTHONPATH");
    unsetenv("WMTP_PYTHON");
  }
  ~PythonProgramTest() override { fs::current_path("/"); }

  static std::string output_of(const std::string& program, const std::vector<std::string>& arguments = {}) {
    const ChildResult result = run_child(python_child(users_python().program, program, arguments), 20s);
    return result.exit_code == 0 ? result.output : result.messages;
  }

  test::TemporaryFolder folder_;
};

TEST_F(PythonProgramTest, ImportsNothingFromTheWorkingFolder) {
  for (const char* path : {"", ":", ".", ":/absent", "/absent:", "/absent::/nowhere", "./", "../"}) {
    setenv("PYTHONPATH", path, 1);
    EXPECT_EQ(output_of("import json; print(json.dumps({}))"), "{}\n") << path;
  }
}

TEST_F(PythonProgramTest, ImportsFromAbsoluteFoldersOfPythonpath) {
  folder_.write("modules/own.py", "print('own')\n");
  setenv("PYTHONPATH", (":" + (folder_.path() / "modules").string() + ":/absent").c_str(), 1);
  EXPECT_EQ(output_of("import own, json, os; print(os.environ['PYTHONPATH'])"),
            "own\n" + (folder_.path() / "modules").string() + ":/absent\n");
}

TEST_F(PythonProgramTest, GivesTheProgramItsArguments) {
  EXPECT_EQ(output_of("\"\"\"A text.\"\"\"\nimport sys; print(sys.argv[1:])", {"a b", "c"}), "['a b', 'c']\n");
}

TEST_F(PythonProgramTest, AnEmptyWmtpPythonCountsAsUnset) {
  setenv("WMTP_PYTHON", "", 1);
  EXPECT_EQ(users_python().program, find_program("python3"));
  EXPECT_EQ(users_python().name, "python3 in PATH");
  setenv("WMTP_PYTHON", "/absent/python", 1);
  EXPECT_EQ(users_python().program, "");
  EXPECT_NE(users_python().name.find("/absent/python"), std::string::npos);
}

TEST_F(PythonProgramTest, ANamedPythonPrecedesWmtpPython) {
  setenv("WMTP_PYTHON", "/absent/python", 1);
  EXPECT_EQ(users_python("python3").program, find_program("python3"));
}

TEST_F(PythonProgramTest, WithoutPythonTheMessageSaysWhatItIsForAndWhatToInstall) {
  setenv("WMTP_PYTHON", "/absent/python", 1);
  const PythonProgram program{"tables.py", "converts tables", "pyarrow"};
  EXPECT_EQ(test::refusal(ExitStatus::usage, [&] { program.request(); }),
            "found no \"/absent/python\", which converts tables; name a Python that has pyarrow in "
            "WMTP_PYTHON (pip install 'pyarrow')");
}

}  // namespace
}  // namespace wmtp
