#include "evaluate/sandbox.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "evaluate/evaluation.hpp"
#include "support/landlock.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!landlock()) GTEST_SKIP() << "this kernel has no Landlock";
    sandbox_ = sandbox(20);
  }
  static std::unique_ptr<Sandbox> sandbox(double seconds, const std::string& python = "python3") {
    SandboxLimits limits;
    limits.seconds = seconds;
    limits.memory_bytes = int64_t{256} << 20;
    return std::make_unique<Sandbox>(python, limits);
  }
  Judged run(const std::string& program) const { return sandbox_->run({.program = program}); }
  void expect_refused(const std::string& program, const std::string& message) const {
    const Judged judged = run(program);
    EXPECT_EQ(judged.verdict, Verdict::failed) << program;
    EXPECT_NE(judged.message.find(message), std::string::npos) << program << "\n" << judged.message;
    EXPECT_LT(judged.seconds, 20);
  }
  std::unique_ptr<Sandbox> sandbox_;
};

TEST_F(SandboxTest, PassesAProgramThatRunsToItsEnd) {
  const Judged judged = run("assert sum(range(5)) == 10\nprint('x' * 1000000)");
  EXPECT_EQ(judged.verdict, Verdict::passed) << judged.message;
  EXPECT_EQ(judged.message, "");
}

TEST_F(SandboxTest, AVirtualEnvironmentsPythonFindsItsPackages) {
  std::string folder = (fs::temp_directory_path() / "wmtp-venv-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(std::system(("cd " + folder + " && python3 -m venv --without-pip venv && " +
                         "echo 'answer = 42' > only_here.py && mv only_here.py venv/lib/python3*/site-packages")
                            .c_str()),
            0);
  const std::string program =
      "import only_here, sys\nassert only_here.answer == 42\nassert sys.prefix != sys.base_prefix";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  for (const std::string& python : {std::string("venv/bin/python"), folder + "/venv/bin/python"}) {
    const Judged judged = sandbox(20, python)->run({.program = program});
    EXPECT_EQ(judged.verdict, Verdict::passed) << python << ": " << judged.message;
  }
  fs::current_path(before);
  fs::remove_all(folder);
  expect_refused(program, "No module named 'only_here'");
}

TEST_F(SandboxTest, ReportsWhatFailed) {
  expect_refused("assert 1 == 2, 'one is not two'", "AssertionError: one is not two");
  expect_refused("def f(:\n  pass", "SyntaxError");
  expect_refused("import sys\nsys.exit(3)", "exited with 3");
  expect_refused("import ctypes\nctypes.string_at(0)", "Segmentation fault");
}

TEST_F(SandboxTest, ReportsWhetherProgramOrTestsFailed) {
  const auto message = [&](const std::string& program, const std::string& tests) {
    return sandbox_->run({.program = program, .tests = tests}).message;
  };
  EXPECT_EQ(message("def f(): return 1", "assert f() == 2, 'one is not two'"), "AssertionError: one is not two");
  EXPECT_EQ(message("def f(): raise ValueError('no')", "f()"), "ValueError: no");
  EXPECT_EQ(message("def f(): return 1", "assert g() == 1"), "NameError: name 'g' is not defined");
  EXPECT_EQ(message("def f(): exit()", "f()"), "exited before its end");
  EXPECT_EQ(message("1 / 0", "assert True"), "ZeroDivisionError: division by zero");
  EXPECT_EQ(message("def f(g): return g()", "f(lambda: 1)"),
            "TypeError: tests cannot pass their own function objects to a program");
  EXPECT_EQ(message("def f(): return 1", "assert f() == 1"), "");
}

TEST_F(SandboxTest, AProgramThatExitsEarlyHasNotPassed) {
  expect_refused("import os\nos._exit(0)", "exited before its end");
  expect_refused("import sys\nsys.exit()", "exited before its end");
}

TEST_F(SandboxTest, KillsProgramsThatLoopSleepOrCloseTheirOutput) {
  for (const std::string program : {"while True: pass", "import time\ntime.sleep(60)",
                                    "import os, time\nfor n in (0, 1, 2, 3): os.close(n)\ntime.sleep(60)",
                                    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                    "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"}) {
    const Judged judged = sandbox(1)->run({.program = program});
    EXPECT_EQ(judged.verdict, Verdict::timed_out) << program << "\n" << judged.message;
    EXPECT_LT(judged.seconds, 10) << program;
  }
}

TEST_F(SandboxTest, LimitsMemory) {
  expect_refused("x = bytearray(1 << 30)", "MemoryError");
  expect_refused("x = []\nwhile True: x.append(bytearray(1 << 20))", "MemoryError");
}

TEST_F(SandboxTest, StartsNoProcess) {
  expect_refused("import os\nos.fork()", "PermissionError");
  expect_refused("import subprocess\nsubprocess.run(['/bin/true'])", "PermissionError");
  expect_refused("import os\nwhile True:\n  os.fork()", "PermissionError");
  EXPECT_EQ(run("import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()").verdict,
            Verdict::passed)
      << "threads are no processes";
}

TEST_F(SandboxTest, SignalsNoProcess) {
  expect_refused("import os\nos.kill(" + std::to_string(getpid()) + ", 9)", "PermissionError");
  expect_refused("import os\nos.kill(-1, 9)", "PermissionError");
}

TEST_F(SandboxTest, OpensNoSocket) {
  expect_refused("import socket\nsocket.socket()", "PermissionError");
  expect_refused("import socket\nsocket.socket(socket.AF_UNIX)", "PermissionError");
}

TEST_F(SandboxTest, WritesOnlyToItsOwnFolder) {
  char name[] = "/tmp/wmtp-outside-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const fs::path outside = name;
  std::ofstream(outside / "file") << "untouched";
  const std::string file = "'" + (outside / "file").string() + "'", folder = "'" + outside.string() + "'";
  expect_refused("open(" + file + ", 'w')", "PermissionError");
  expect_refused("open(" + folder + " + '/new', 'w')", "PermissionError");
  expect_refused("import os\nos.remove(" + file + ")", "PermissionError");
  expect_refused("import os\nos.mkdir(" + folder + " + '/new')", "PermissionError");
  expect_refused("import os\nos.symlink('/', " + folder + " + '/new')", "PermissionError");
  expect_refused("import os\nos.chmod(" + file + ", 0)", "PermissionError");
  expect_refused("import os\nos.utime(" + file + ")", "PermissionError");
  expect_refused("import os\nos.truncate(" + file + ", 0)", "PermissionError");
  expect_refused("import os\nos.open(" + file + ", os.O_RDONLY | os.O_TRUNC)", "PermissionError");
  expect_refused("import os\nos.rename(" + file + ", 'mine')", "Error");
  std::string text;
  std::ifstream(outside / "file") >> text;
  EXPECT_EQ(text, "untouched");
  fs::remove_all(outside);

  const Judged own =
      run("open('new', 'w').write('x')\nassert open('new').read() == 'x'\nprint(end='', file=open('/dev/null', 'w'))");
  EXPECT_EQ(own.verdict, Verdict::passed) << own.message;
}

TEST_F(SandboxTest, WritesNoLongFiles) {
  expect_refused("f = open('x', 'wb')\nfor i in range(100): f.write(bytes(1 << 20))\nf.flush()", "File");
}

TEST_F(SandboxTest, ANestOfFoldersCostsItsProgramAloneTheVerdict) {
  rlimit before{}, few{};
  getrlimit(RLIMIT_NOFILE, &before);
  few = before;
  few.rlim_cur = 128;  // for two programs at a time
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Problem> suite(1);
  std::vector<Sample> samples;
  for (int i = 0; i < 6; ++i)
    samples.push_back({0, i % 2 ? "x = 1\n"
                                : "import os, time\nfor _ in range(985):\n    os.mkdir('d')\n    os.chdir('d')\n"
                                  "time.sleep(20)\n"});
  const std::vector<Judged> judged = judge(suite, samples, sandbox_.get(), 2, {});
  setrlimit(RLIMIT_NOFILE, &before);
  for (size_t i = 0; i < judged.size(); ++i) {
    EXPECT_EQ(judged[i].verdict, i % 2 ? Verdict::passed : Verdict::failed) << i;
    EXPECT_EQ(judged[i].message, i % 2 ? "" : "created folders more than 64 deep");
    EXPECT_LT(judged[i].seconds, 15);
  }
}

TEST_F(SandboxTest, LeavesNothingBehind) {
  char name[] = "/tmp/wmtp-temporary-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  setenv("TMPDIR", name, 1);
  run("open('x', 'w').write('x')");
  run("import os\nfor _ in range(2000):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)");
  sandbox(0.5)->run({.program = "while True: pass"});
  unsetenv("TMPDIR");
  EXPECT_TRUE(fs::is_empty(name));
  fs::remove_all(name);
}

TEST_F(SandboxTest, HasNoPrivilege) {
  EXPECT_EQ(run("text = open('/proc/self/status').read()\nassert 'CapEff:\\t0000000000000000' in text, text\n"
                "assert 'NoNewPrivs:\\t1' in text")
                .verdict,
            Verdict::passed);
  expect_refused("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "Error");
}

TEST(Sandbox, RequiresAnExistingInterpreter) {
  if (!landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  for (const std::string name : {"no-such-python", "/no/such/python", "/bin/true"})
    EXPECT_SAYS(test::refusal(ExitStatus::usage, [&] { Sandbox(name, {}); }), "--python") << name;
}

}  // namespace
}  // namespace wmtp
