// A printed command reads the log that it is about.
#include "log/log_option.hpp"

#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

class LogOption : public LogTest {
 protected:
  void SetUp() override {
    LogTest::SetUp();
    unsetenv("WMTP_DB");
  }
  void TearDown() override {
    unsetenv("WMTP_DB");
    LogTest::TearDown();
  }
};

TEST_F(LogOption, IsOmittedForTheLogThatIsReadWithoutIt) {
  EXPECT_EQ(log_option("runs/wmtp.db"), "");
  EXPECT_EQ(log_option("other.db"), " --db other.db");
  EXPECT_EQ(log_option("my runs/o.db"), " --db 'my runs/o.db'");
  setenv("WMTP_DB", "other.db", 1);
  EXPECT_EQ(log_option("other.db"), "");
  EXPECT_EQ(log_option("runs/wmtp.db"), " --db runs/wmtp.db");
}

TEST_F(LogOption, IsOmittedForAnotherPathOfThatLog) {
  std::ofstream{file_};
  setenv("WMTP_DB", (file_.parent_path() / "." / file_.filename()).c_str(), 1);
  EXPECT_EQ(log_option(file_), "");
}

}  // namespace
}  // namespace wmtp
