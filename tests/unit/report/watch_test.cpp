#include "report/watch.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <thread>

#include "log/run_log.hpp"

namespace wmtp {
namespace {

class WatchTest : public testing::Test {
 protected:
  WatchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wmtp-watch-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ / "wmtp.db";
    RunStart start;
    start.name = "tiny";
    start.config_hash = "c0ffee";
    log_ = std::make_unique<RunLog>(file_, start);
  }
  ~WatchTest() override {
    log_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_, file_;
  std::unique_ptr<RunLog> log_;
};

TEST_F(WatchTest, ShowsTheNewestStepThenFurtherStepsAndTheEnd) {
  for (int64_t step = 1; step <= 5; ++step) log_->metrics(step, {{"train/loss", 6.0 - double(step)}});
  std::ostringstream out;
  int code = -1;
  std::thread watching([&] {
    const LogReader log(file_);
    while (log.query("SELECT count(*) FROM metrics", {}, 1).rows[0][0] < 5) std::this_thread::yield();
    code = watch_run(out, log, {.run_id = 1, .interval = std::chrono::milliseconds(100)});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  log_->metrics(
      6,
      {{"train/loss", 0.5}, {"perf/tokens_per_second", 1234.0}, {"perf/run_tokens", 500.0}, {"perf/run_seconds", 2.0}});
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  log_->metrics(6, {{"valid/loss", 0.75}});
  log_->end(ExitStatus::interrupted);
  watching.join();
  EXPECT_EQ(code, 75);
  const std::string text = out.str();
  size_t at = 0;
  for (const char* part : {"step 5  loss 1\n", "step 6  loss 0.5  1,234 tokens/s\n", "step 6: validation loss 0.75\n",
                           "tiny: interrupted after", ", 250 tokens/s\n"}) {
    at = text.find(part, at);
    EXPECT_NE(at, std::string::npos) << part << " in order in\n" << text;
  }
  EXPECT_EQ(text.find("step 4"), std::string::npos) << "earlier steps are not shown";
}

TEST_F(WatchTest, StopsOnRequest) {
  std::ostringstream out;
  EXPECT_EQ(watch_run(out, LogReader(file_), {.run_id = 1, .stopped = [] { return true; }}), 0);
}

}  // namespace
}  // namespace wmtp
