// The probe child keeps stdout for its answer, whatever the plugin prints or throws.
#include "plugins/torch/serve_probe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "io/scratch_folder.hpp"

namespace wmtp {
namespace {

using testing::HasSubstr;

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(AnswerProbe, KeepsStdoutForTheAnswer) {
  const ScratchFolder folder;
  const auto out = folder.path() / "out";
  const auto child = [&](const std::function<std::string(const std::string&)>& describe) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (freopen(out.c_str(), "w", stdout) == nullptr || freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
      _exit(serve_probe("x.so", describe));
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(child([](const std::string&) {
              if (write(STDOUT_FILENO, "noise", 5) != 5) _exit(98);
              return std::string("{}");
            }),
            0);
  EXPECT_EQ(bytes_of(out), "{}\n");
  EXPECT_EQ(child([](const std::string& file) -> std::string { throw Error(ExitStatus::plugin, file + ": no"); }), 3);
  EXPECT_EQ(bytes_of(out), "{\"refused\":\"x.so: no\",\"status\":3}\n");
  EXPECT_EQ(child([](const std::string&) -> std::string { throw 42; }), 3);
  EXPECT_THAT(bytes_of(out), HasSubstr("not derived from std::exception"));
}

}  // namespace
}  // namespace wmtp
