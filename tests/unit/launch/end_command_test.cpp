#include "launch/end_command.hpp"

#include <sstream>

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class EndCommand : public LogTest {
 protected:
  std::filesystem::path script(const std::string& body) const {
    const auto file = folder_ / "told.sh";
    std::ofstream(file) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
};

TEST_F(EndCommand, GetsTheRunInItsEnvironment) {
  RunLog log(file_, start("odd; $(touch x)"));
  log.metrics(1, {{"train/loss", 2.5}, {"train/grad_norm", 1.0 / 0.0}});
  log.metrics(2, {{"train/loss", 0.0 / 0.0}});
  log.end(ExitStatus::guard);
  const auto written = folder_ / "written";
  const auto program = script("env | grep ^WMTP_RUN_ | sort > " + written.string() + "\n[ $# = 0 ] || echo \"$@\" >> " +
                              written.string() + "\nls \"$WMTP_DB\" > /dev/null || exit 1\n");
  run_end_command(checked_end_command(program), file_, {1, "odd; $(touch x)", ExitStatus::guard, "gave up"});
  std::stringstream text;
  text << std::ifstream(written).rdbuf();
  EXPECT_EQ(text.str(), "WMTP_RUN_EXIT_CODE=" + std::to_string(int(ExitStatus::guard)) +
                            "\nWMTP_RUN_ID=1\nWMTP_RUN_LOSS=\nWMTP_RUN_NAME=odd; $(touch x)\nWMTP_RUN_NOT_FINITE=2\n"
                            "WMTP_RUN_REASON=gave up\nWMTP_RUN_STATUS=failed\n");
}

TEST_F(EndCommand, ThatFailsChangesNothing) {
  EXPECT_NO_THROW(run_end_command(script("echo broken >&2\nexit 3\n"), file_, {0, "x", ExitStatus::done, ""}));
  EXPECT_NO_THROW(run_end_command(folder_ / "absent", file_, {0, "x", ExitStatus::done, ""}));
}

TEST_F(EndCommand, MustBeAnExecutableFile) {
  std::ofstream(folder_ / "plain") << "text";
  for (const auto& wrong : {folder_ / "absent", folder_ / "plain", folder_})
    EXPECT_TRUE(holds(refusal(ExitStatus::usage, [&] { checked_end_command(wrong); }), "an executable file")) << wrong;
}

}  // namespace
}  // namespace wmtp
